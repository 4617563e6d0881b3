//! RMSNorm's kernels against the `f64` reference, on every runtime that the build links and the machine
//! has. A runtime that is linked but has no device here is skipped, with a line that says so.

mod common;

use armature_cubecl::{Error, rms_norm, rms_norm_backward, rms_norm_saving, supports};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType, Shape, Slice, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};
use common::{EPSILON, errors, exact, tensor, tensor_of, tolerance};

const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

fn check(name: &str, x: CubeTensor, weight: Option<CubeTensor>, grad: CubeTensor) {
    let (shape, dtype) = (x.shape(), x.dtype);
    let errors = errors(x, weight, grad);
    assert!(
        errors.max() <= tolerance(dtype),
        "{name}, {shape:?} in {dtype:?}: {errors:?}"
    );
}

fn check_shape(device: &CubeDevice, shape: &[usize], dtype: DType, weighted: bool) {
    let hidden = &shape[shape.len() - 1..];
    let weight = weighted.then(|| tensor(device, hidden, dtype, 2));
    check(
        "contiguous",
        tensor(device, shape, dtype, 1),
        weight,
        tensor(device, shape, dtype, 3),
    );
}

/// Every rank, with one-element rows and odd lengths among them; zero-sized dimensions.
fn ranks(device: &CubeDevice) {
    for dtype in DTYPES.into_iter().filter(|dtype| supports(device, *dtype)) {
        println!("{dtype:?}");
        for shape in [
            &[5][..],
            &[3, 7],
            &[2, 3, 1],
            &[2, 1, 3, 33],
            &[1, 2, 3, 2, 9],
            &[2, 1, 2, 3, 1, 40],
        ] {
            check_shape(device, shape, dtype, true);
            check_shape(device, shape, dtype, false);
        }
        for shape in [&[0][..], &[0, 4], &[3, 0], &[2, 0, 5]] {
            check_shape(device, shape, dtype, true);
        }
    }
    let (_, rstd) = rms_norm_saving(tensor(device, &[3, 0], DType::F32, 1), None, 0.25).unwrap();
    assert_eq!(
        exact(&rstd),
        [2.0; 3],
        "an empty row counts as one of zeros"
    );
}

/// Row lengths across every way of sharing a row: part of a plane, a plane, a cube, held and not.
fn lengths(device: &CubeDevice) {
    for hidden in [
        1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 64, 96, 127, 128, 129, 255, 256, 500, 512, 768, 1000,
        1024, 1025, 1536, 2048, 3000, 4096, 4097, 5120, 8192, 16_384, 16_385, 32_768, 40_000,
        131_073,
    ] {
        let rows = if hidden > 8192 { 3 } else { 21 };
        check_shape(device, &[rows, hidden], DType::F32, true);
        for dtype in [DType::F16, DType::BF16] {
            if hidden % 128 < 2 && supports(device, dtype) {
                check_shape(device, &[rows, hidden], dtype, true);
            }
        }
    }
}

/// More rows than one dimension of a grid holds on some devices, and fewer rows than a cube shares.
fn row_counts(device: &CubeDevice) {
    check_shape(device, &[70_000, 8], DType::F32, true);
    check_shape(device, &[70_000, 1], DType::F32, true);
    check_shape(device, &[2, 35_001, 3], DType::F32, false);
    for rows in [1, 2, 3, 5, 8, 9, 100, 1000] {
        check_shape(device, &[rows, 24], DType::F32, true);
        check_shape(device, &[rows, 600], DType::F32, true);
    }
}

/// Transposed, permuted, sliced, expanded and padded tensors.
fn layouts(device: &CubeDevice) {
    type B = CubeBackend;
    type Change = fn(CubeTensor) -> CubeTensor;
    const ALL: Slice = Slice::new(0, None, 1);
    let changes: [(&str, Change); 9] = [
        ("permuted rows", |tensor| {
            B::float_permute(tensor, &[1, 0, 2])
        }),
        ("permuted", |tensor| B::float_permute(tensor, &[2, 0, 1])),
        ("transposed", |tensor| B::float_swap_dims(tensor, 1, 2)),
        ("sliced rows", |tensor| {
            B::float_slice(
                tensor,
                &[Slice::new(1, Some(4), 1), Slice::new(2, Some(5), 1)],
            )
        }),
        ("sliced columns", |tensor| {
            B::float_slice(tensor, &[ALL, ALL, Slice::new(16, Some(48), 1)])
        }),
        ("padded rows", |mut tensor| {
            // As an allocator that pads rows lays a tensor out.
            tensor.meta.shape[2] = 60;
            tensor
        }),
        ("a view at an offset", |mut tensor| {
            let bytes = 128 * tensor.dtype.size() as u64;
            tensor.handle = tensor.handle.offset_start(bytes).offset_end(bytes);
            tensor.meta.shape[0] -= 1;
            tensor.meta.shape[1] -= 1;
            tensor
        }),
        ("expanded rows", |tensor| {
            let one = B::float_slice(tensor, &[Slice::new(0, Some(1), 1)]);
            B::float_expand(one, Shape::from([5, 6, 64]))
        }),
        ("expanded columns", |tensor| {
            let one = B::float_slice(tensor, &[ALL, ALL, Slice::new(3, Some(4), 1)]);
            B::float_expand(one, Shape::from([4, 6, 32]))
        }),
    ];
    for dtype in [DType::F32, DType::F16]
        .into_iter()
        .filter(|dtype| supports(device, *dtype))
    {
        for (name, change) in changes {
            let x = change(tensor(device, &[4, 6, 64], dtype, 1));
            let grad = change(tensor(device, &[4, 6, 64], dtype, 3));
            let hidden = *x.shape().last().unwrap();
            let weight = tensor(device, &[hidden], dtype, 2);
            check(name, x.clone(), Some(weight), grad.clone());
            // Layouts of x and of the gradient need not agree.
            let shape = x.shape().to_vec();
            check(name, x, None, tensor(device, &shape, dtype, 5));
            check(name, tensor(device, &shape, dtype, 5), None, grad);
        }
    }
}

/// What is not needed does not come back, and what does is the same.
fn needed(device: &CubeDevice) {
    for hidden in [24, 1000, 40_000] {
        let x = tensor(device, &[37, hidden], DType::F32, 1);
        let weight = tensor(device, &[hidden], DType::F32, 2);
        let grad = tensor(device, &[37, hidden], DType::F32, 3);
        let (_, rstd) = rms_norm_saving(x.clone(), Some(weight.clone()), EPSILON).unwrap();
        let run = |needed| {
            let (x, rstd, grad) = (x.clone(), rstd.clone(), grad.clone());
            let (dx, dw) = rms_norm_backward(x, Some(weight.clone()), rstd, grad, needed).unwrap();
            (dx.as_ref().map(exact), dw.as_ref().map(exact))
        };
        let (dx, dw) = run((true, true));
        let (dx_alone, no_dw) = run((true, false));
        let (no_dx, dw_alone) = run((false, true));
        assert!(no_dx.is_none() && no_dw.is_none());
        assert_eq!(run((false, false)), (None, None));
        let error = common::reference::relative_error(&dx_alone.unwrap(), &dx.unwrap());
        assert!(error <= 1e-6, "{error:e}");
        let error = common::reference::relative_error(&dw_alone.unwrap(), &dw.unwrap());
        assert!(error <= 1e-6, "{error:e}");
    }
}

/// The same bits in every run, and NaN and infinity only where they were put.
fn determinism_and_nan(device: &CubeDevice) {
    let (rows, hidden) = (300, 513);
    let mut values = common::reference::values(rows * hidden, 1);
    values[hidden + 5] = f64::NAN;
    values[2 * hidden + 7] = f64::INFINITY;
    let x = tensor_of(device, &[rows, hidden], DType::F32, values);
    let weight = tensor(device, &[hidden], DType::F32, 2);
    let grad = tensor(device, &[rows, hidden], DType::F32, 3);
    let run = || {
        let (y, rstd) = rms_norm_saving(x.clone(), Some(weight.clone()), EPSILON).unwrap();
        let (x, weight) = (x.clone(), Some(weight.clone()));
        let (dx, dw) =
            rms_norm_backward(x, weight, rstd.clone(), grad.clone(), (true, true)).unwrap();
        let bits = |tensor: &CubeTensor| exact(tensor).into_iter().map(f64::to_bits).collect();
        let all: [Vec<u64>; 4] = [&y, &rstd, &dx.unwrap(), &dw.unwrap()].map(bits);
        (exact(&y), all)
    };
    let (y, bits) = run();
    assert!(y[hidden..2 * hidden].iter().all(|y| y.is_nan()));
    let third = &y[2 * hidden..3 * hidden];
    assert!(third[7].is_nan() && third.iter().filter(|y| **y == 0.0).count() == hidden - 1);
    assert!(
        y[..hidden]
            .iter()
            .chain(&y[3 * hidden..])
            .all(|y| y.is_finite())
    );
    for _ in 0..5 {
        assert!(run().1 == bits, "the same bits again");
    }
}

/// What cannot run says so, by name.
fn refusals(device: &CubeDevice) {
    let floats = |seed| tensor(device, &[2, 3], DType::F32, seed);
    let mut odd = floats(1);
    odd.dtype = DType::I32;
    assert!(!supports(device, DType::I32));
    let error = rms_norm(odd.clone(), None, EPSILON).unwrap_err();
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
    for dtype in DTYPES.into_iter().filter(|dtype| !supports(device, *dtype)) {
        let mut x = floats(1);
        x.dtype = dtype;
        let error = rms_norm(x, None, EPSILON).unwrap_err();
        println!("{error}");
        assert!(matches!(error, Error::DTypeUnsupported { .. }), "{error}");
    }
    let error = rms_norm_backward(floats(1), None, floats(2), odd, (true, true)).unwrap_err();
    assert!(
        matches!(error, Error::DTypeMismatch { input: "grad", .. }),
        "{error}"
    );
}

macro_rules! on {
    ($($runtime:ident: $feature:literal)*) => {$(
        #[cfg(feature = $feature)]
        mod $runtime {
            on!(@cases stringify!($runtime), ranks lengths row_counts layouts needed
                determinism_and_nan refusals);
        }
    )*};
    (@cases $runtime:expr, $($case:ident)*) => {$(
        #[test]
        fn $case() {
            match super::common::device($runtime) {
                Ok(device) => super::$case(&device),
                Err(reason) => println!("skipped on {}: {reason}", $runtime),
            }
        }
    )*};
}

on! {
    cpu: "cpu"
    wgpu: "wgpu"
    cuda: "cuda"
    rocm: "rocm"
}
