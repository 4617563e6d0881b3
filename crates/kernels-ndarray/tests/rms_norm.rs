//! RMSNorm on NdArray tensors against the `f64` reference: the layouts that ndarray's views can have.

#![allow(
    deprecated,
    reason = "burn-ndarray is, upstream; it is served as long as it exists"
)]

#[path = "../../kernels-cpu/tests/reference/mod.rs"]
mod reference;

use armature_ndarray::{Error, rms_norm, rms_norm_backward, rms_norm_saving};
use burn_backend::{DType, TensorMetadata};
use burn_ndarray::{NdArrayTensor, SharedArray};
use ndarray::{ArcArray, Axis, IxDyn, Slice};
use reference::{error_by, relative_error, values};

const EPSILON: f64 = 1e-5;

/// `len` reference values in an array of this shape.
fn array<E: Copy + 'static>(shape: &[usize], seed: u64, from: fn(f64) -> E) -> SharedArray<E> {
    let len = shape.iter().product();
    let values = values(len, seed).into_iter().map(from).collect();
    ArcArray::from_shape_vec(IxDyn(shape), values).unwrap()
}

fn exact(tensor: &NdArrayTensor) -> Vec<f64> {
    match tensor {
        NdArrayTensor::F32(array) => array.view().iter().map(|value| f64::from(*value)).collect(),
        NdArrayTensor::F64(array) => array.view().iter().copied().collect(),
        other => panic!("a {:?} tensor", other.dtype()),
    }
}

/// Both passes against the reference; x, weight and grad keep their values.
fn check(x: NdArrayTensor, weight: Option<NdArrayTensor>, grad: NdArrayTensor, tolerance: f64) {
    let shape = x.shape();
    let hidden = *shape.last().unwrap();
    let before = (exact(&x), weight.as_ref().map(exact), exact(&grad));

    let (y, rstd) = rms_norm_saving(x.clone(), weight.clone(), EPSILON).unwrap();
    let alone = rms_norm(x.clone(), weight.clone(), EPSILON).unwrap();
    assert_eq!(exact(&alone), exact(&y));
    let (dx, dw) = rms_norm_backward(
        x.clone(),
        weight.clone(),
        rstd.clone(),
        grad.clone(),
        (true, true),
    )
    .unwrap();
    let (dx, dw) = (dx.unwrap(), dw.unwrap());
    assert_eq!(
        (exact(&x), weight.as_ref().map(exact), exact(&grad)),
        before
    );

    let mut rstd_shape = shape.to_vec();
    *rstd_shape.last_mut().unwrap() = 1;
    assert_eq!(y.shape(), shape);
    assert_eq!(dx.shape(), shape);
    assert_eq!(rstd.shape().to_vec(), rstd_shape);
    assert_eq!(dw.shape().to_vec(), [hidden]);
    for tensor in [&y, &rstd, &dx, &dw] {
        assert_eq!(tensor.dtype(), x.dtype());
    }

    let (x, weight, grad) = (before.0, before.1.as_deref(), before.2);
    if hidden == 0 {
        return;
    }
    let (y_true, rstd_true) = reference::forward(&x, weight, hidden, EPSILON);
    let (dx_true, dw_true) = reference::backward(&x, weight, &grad, hidden, EPSILON);
    let scale = reference::dx_scale(&x, weight, &grad, hidden, EPSILON);
    let dw_scale = reference::dw_scale(&x, &grad, hidden, EPSILON);
    for (what, error) in [
        ("y", relative_error(&exact(&y), &y_true)),
        ("rstd", relative_error(&exact(&rstd), &rstd_true)),
        ("dx", error_by(&exact(&dx), &dx_true, &scale)),
        ("dw", error_by(&exact(&dw), &dw_true, &dw_scale)),
    ] {
        assert!(error <= tolerance, "{what} of {shape:?}: {error:e}");
    }
}

#[test]
fn every_rank_in_both_dtypes() {
    for shape in [
        &[5][..],
        &[3, 7],
        &[2, 3, 1],
        &[2, 1, 3, 33],
        &[1, 2, 3, 2, 9],
        &[2, 1, 2, 3, 1, 40],
    ] {
        let hidden = &shape[shape.len() - 1..];
        let weight = array(hidden, 2, |value| value as f32);
        check(
            array(shape, 1, |value| value as f32).into(),
            Some(weight.into()),
            array(shape, 3, |value| value as f32).into(),
            1e-6,
        );
        check(
            array(shape, 1, |value| value).into(),
            None,
            array(shape, 3, |value| value).into(),
            1e-13,
        );
    }
}

#[test]
fn zero_sized_dimensions() {
    for shape in [&[0][..], &[0, 4], &[3, 0], &[0, 0], &[2, 0, 5]] {
        let hidden = &shape[shape.len() - 1..];
        check(
            array(shape, 1, |value| value as f32).into(),
            Some(array(hidden, 2, |value| value as f32).into()),
            array(shape, 3, |value| value as f32).into(),
            0.0,
        );
    }
}

#[test]
fn views_of_any_layout() {
    type Change = fn(SharedArray<f32>) -> SharedArray<f32>;
    let changes: [(&str, Change); 7] = [
        ("permuted", |array| array.permuted_axes(IxDyn(&[2, 0, 1]))),
        ("transposed", |array| array.reversed_axes()),
        ("sliced rows", |mut array| {
            array.slice_axis_inplace(Axis(1), Slice::from(2..5));
            array
        }),
        ("sliced columns", |mut array| {
            // Negative ends count from the back.
            #[allow(clippy::reversed_empty_ranges)]
            array.slice_axis_inplace(Axis(2), Slice::from(1..-2));
            array
        }),
        ("stepped", |mut array| {
            array.slice_axis_inplace(Axis(2), Slice::new(1, None, 3));
            array.slice_axis_inplace(Axis(0), Slice::new(0, None, 2));
            array
        }),
        ("flipped rows", |mut array| {
            array.invert_axis(Axis(1));
            array
        }),
        ("flipped columns", |mut array| {
            array.invert_axis(Axis(2));
            array.invert_axis(Axis(0));
            array
        }),
    ];
    for (name, change) in changes {
        println!("{name}");
        let x = change(array(&[3, 6, 11], 1, |value| value as f32));
        let grad = change(array(&[3, 6, 11], 3, |value| value as f32));
        let hidden = x.shape()[2];
        // The weight, too, lies apart.
        let mut weight = array(&[2 * hidden], 2, |value| value as f32);
        weight.slice_axis_inplace(Axis(0), Slice::new(0, None, -2));
        check(x.into(), Some(weight.into()), grad.into(), 1e-6);
    }
}

#[test]
fn memory_that_nobody_else_holds_is_used_again() {
    let x = || array(&[40, 30], 1, |value| value as f32);
    let kept = NdArrayTensor::from(x());
    let expected = exact(&rms_norm(kept.clone(), None, EPSILON).unwrap());
    assert_eq!(exact(&kept), exact(&x().into()));

    let donated = x();
    let address = donated.as_ptr();
    let y = rms_norm(donated.into(), None, EPSILON).unwrap();
    assert_eq!(exact(&y), expected);
    let NdArrayTensor::F32(y) = y else {
        panic!("f32 as x is")
    };
    assert_eq!(y.view().as_ptr(), address);

    // Nobody else holds it, but it does not lie row after row.
    let transposed = NdArrayTensor::from(x().reversed_axes());
    let expected = exact(&rms_norm(transposed.clone(), None, EPSILON).unwrap());
    assert_eq!(
        exact(&rms_norm(transposed, None, EPSILON).unwrap()),
        expected
    );
}

#[test]
fn other_dtypes_are_refused_by_name() {
    let floats = |seed| NdArrayTensor::from(array(&[2, 3], seed, |value| value as f32));
    let doubles = NdArrayTensor::from(array(&[3], 2, |value| value));
    let ints = NdArrayTensor::from(array(&[2, 3], 1, |value| value as i32));

    let error = rms_norm(ints.clone(), None, EPSILON).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DTypeUnsupported {
                dtype: DType::I32,
                ..
            }
        ),
        "{error}"
    );
    let error = rms_norm_saving(floats(1), Some(doubles), EPSILON).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DTypeMismatch {
                input: "weight",
                ..
            }
        ),
        "{error}"
    );
    let error = rms_norm_backward(floats(1), None, floats(2), ints, (true, false)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DTypeMismatch {
                input: "grad",
                expected: DType::F32,
                found: DType::I32,
                ..
            }
        ),
        "{error}"
    );
}
