//! RMSNorm on Flex tensors against the `f64` reference: the dtypes and layouts that Flex can have.

#[path = "../../kernels-cpu/tests/reference/mod.rs"]
mod reference;

use armature_flex::{Error, rms_norm, rms_norm_backward, rms_norm_saving};
use burn_backend::{DType, Element, Shape, TensorData, TensorMetadata, bf16, f16};
use burn_flex::{FlexTensor, Layout};
use proptest::prelude::*;
use reference::{error_by, relative_error, values};

const EPSILON: f64 = 1e-5;

fn tensor(shape: &[usize], dtype: DType, seed: u64) -> FlexTensor {
    let values = values(shape.iter().product(), seed);
    FlexTensor::from_data(TensorData::new(values, Shape::from(shape)).convert_dtype(dtype))
}

fn exact(tensor: &FlexTensor) -> Vec<f64> {
    fn all<E: Element + bytemuck::Pod>(tensor: &FlexTensor) -> Vec<f64> {
        tensor
            .storage::<E>()
            .iter()
            .map(|value| value.elem())
            .collect()
    }
    let tensor = tensor.to_contiguous();
    match tensor.dtype() {
        DType::F32 => all::<f32>(&tensor),
        DType::F64 => all::<f64>(&tensor),
        DType::F16 => all::<f16>(&tensor),
        DType::BF16 => all::<bf16>(&tensor),
        dtype => panic!("a {dtype:?} tensor"),
    }
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-13,
        DType::F32 => 1e-6,
        DType::F16 => 1e-3,
        _ => 5e-3,
    }
}

/// Both passes against the reference; x, weight and grad keep their values.
fn check(x: FlexTensor, weight: Option<FlexTensor>, grad: FlexTensor) {
    let (shape, dtype) = (x.shape(), x.dtype());
    let hidden = *shape.last().unwrap();
    let before = (exact(&x), weight.as_ref().map(exact), exact(&grad));

    let (y, rstd) = rms_norm_saving(x.clone(), weight.clone(), EPSILON).unwrap();
    let alone = rms_norm(x.clone(), weight.clone(), EPSILON).unwrap();
    assert_eq!(exact(&alone), exact(&y));
    let donated = rms_norm(x.to_contiguous(), weight.clone(), EPSILON).unwrap();
    assert_eq!(exact(&donated), exact(&y), "and so in place");
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
    for tensor in [&y, &dx, &dw] {
        assert_eq!(tensor.dtype(), dtype);
    }
    assert_eq!(
        rstd.dtype(),
        if dtype == DType::F64 {
            DType::F64
        } else {
            DType::F32
        }
    );

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
        assert!(
            error <= tolerance(dtype),
            "{what} of {shape:?} in {dtype:?}: {error:e}"
        );
    }
}

#[test]
fn every_rank_in_every_dtype() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for shape in [
            &[5][..],
            &[3, 7],
            &[2, 3, 1],
            &[2, 1, 3, 33],
            &[1, 2, 3, 2, 9],
            &[2, 1, 2, 3, 1, 40],
        ] {
            let hidden = &shape[shape.len() - 1..];
            let (x, grad) = (tensor(shape, dtype, 1), tensor(shape, dtype, 3));
            check(x.clone(), None, grad.clone());
            check(x, Some(tensor(hidden, dtype, 2)), grad);
        }
        for shape in [&[0][..], &[0, 4], &[3, 0], &[2, 0, 5]] {
            let hidden = &shape[shape.len() - 1..];
            let weight = tensor(hidden, dtype, 2);
            check(
                tensor(shape, dtype, 1),
                Some(weight),
                tensor(shape, dtype, 3),
            );
        }
    }
}

#[test]
fn views_of_any_layout() {
    type Change = fn(FlexTensor) -> FlexTensor;
    let changes: [(&str, Change); 7] = [
        ("permuted", |tensor| tensor.permute(&[2, 0, 1])),
        ("transposed", |tensor| tensor.transpose(1, 2)),
        ("sliced rows", |tensor| tensor.narrow(1, 2, 3)),
        ("sliced columns", |tensor| tensor.narrow(2, 1, 8)),
        ("expanded rows", |tensor| {
            let layout = Layout::new(Shape::from([4, 6, 11]), vec![0, 11, 1], 0);
            tensor.with_layout(layout)
        }),
        ("expanded columns", |tensor| {
            let layout = Layout::new(Shape::from([3, 6, 5]), vec![66, 11, 0], 3);
            tensor.with_layout(layout)
        }),
        ("flipped", |tensor| {
            let layout = Layout::new(Shape::from([3, 6, 11]), vec![-66, 11, -1], 2 * 66 + 10);
            tensor.with_layout(layout)
        }),
    ];
    for dtype in [DType::F32, DType::BF16] {
        for (name, change) in changes {
            println!("{name} in {dtype:?}");
            let x = change(tensor(&[3, 6, 11], dtype, 1));
            let grad = change(tensor(&[3, 6, 11], dtype, 3));
            let hidden = *x.shape().last().unwrap();
            // The weight, too, lies apart.
            let weight = tensor(&[2 * hidden], dtype, 2).with_layout(Layout::new(
                Shape::from([hidden]),
                vec![-2],
                2 * hidden - 1,
            ));
            check(x, Some(weight), grad);
        }
    }
}

#[test]
fn memory_that_nobody_else_holds_is_used_again() {
    let x = tensor(&[40, 30], DType::BF16, 1);
    let expected = exact(&rms_norm(x.clone(), None, EPSILON).unwrap());
    let rows = x.clone().narrow(0, 2, 30);
    drop(x);
    let address = rows.bytes().as_ptr();
    let y = rms_norm(rows, None, EPSILON).unwrap();
    assert_eq!(y.bytes().as_ptr(), address);
    assert_eq!(exact(&y), expected[60..32 * 30]);
}

#[test]
fn other_dtypes_are_refused_by_name() {
    let ints = FlexTensor::from_data(TensorData::from([[1i32, 2, 3], [4, 5, 6]]));
    let floats = |seed| tensor(&[2, 3], DType::F32, seed);

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
    let halves = tensor(&[3], DType::F16, 2);
    let error = rms_norm_saving(floats(1), Some(halves), EPSILON).unwrap_err();
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
    let half_rstd = tensor(&[2, 1], DType::F16, 2);
    let half_x = tensor(&[2, 3], DType::F16, 2);
    let error =
        rms_norm_backward(half_x.clone(), None, half_rstd, half_x, (true, true)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::DTypeMismatch {
                input: "rstd",
                expected: DType::F32,
                ..
            }
        ),
        "{error}"
    );
    let error = rms_norm_backward(floats(1), None, floats(2), ints, (true, false)).unwrap_err();
    assert!(
        matches!(error, Error::DTypeMismatch { input: "grad", .. }),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_shape(
        outer in prop::collection::vec(0usize..5, 0..=5),
        hidden in 0usize..300,
        weighted: bool,
        dtype in prop::sample::select(vec![DType::F32, DType::F64, DType::F16, DType::BF16]),
        seed: u64,
    ) {
        let shape: Vec<usize> = outer.into_iter().chain([hidden]).collect();
        let weight = weighted.then(|| tensor(&[hidden], dtype, seed ^ 1));
        check(tensor(&shape, dtype, seed), weight, tensor(&shape, dtype, seed ^ 2));
    }
}
