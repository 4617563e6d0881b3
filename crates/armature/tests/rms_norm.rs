//! rms_norm through the public interface, on every backend of the build that this machine has,
//! against closed forms in f64.

#![allow(deprecated)]

use armature_verify::{
    available_devices, finite_differences, missing_devices, relative_error, values,
};
use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use burn_armature::core::CubeRuntime;
use burn_armature::core::Rest;
use burn_armature::{BackendTag, DispatchError, RmsNorm, coverage, rms_norm, try_rms_norm};

const EPSILON: f64 = 1e-5;

/// What the error may be: `‖found − expected‖ / ‖expected‖`.
fn bound(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        _ => 1e-2,
    }
}

/// The closed form, row by row, in f64.
struct Reference {
    y: Vec<f64>,
    dx: Vec<f64>,
    dweight: Vec<f64>,
    /// The first term of dx, `r·g`. The second can cancel it (in rows of one element all but
    /// wholly), so an error of dx is held against the size of this.
    dx_term: Vec<f64>,
}

fn reference(x: &[f64], weight: Option<&[f64]>, dy: &[f64], hidden: usize) -> Reference {
    let mut result = Reference {
        y: Vec::new(),
        dx: Vec::new(),
        dweight: vec![0.0; hidden],
        dx_term: Vec::new(),
    };
    if hidden == 0 {
        return result;
    }
    let w = |i: usize| weight.map_or(1.0, |weight| weight[i]);
    for (x, dy) in x.chunks(hidden).zip(dy.chunks(hidden)) {
        let n = hidden as f64;
        let r = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / n + EPSILON).sqrt();
        let mean = (0..hidden).map(|i| dy[i] * w(i) * x[i] * r).sum::<f64>() / n;
        for i in 0..hidden {
            result.y.push(x[i] * r * w(i));
            result.dx.push(r * (dy[i] * w(i) - x[i] * r * mean));
            result.dx_term.push(r * dy[i] * w(i));
            result.dweight[i] += dy[i] * x[i] * r;
        }
    }
    result
}

/// Reproducible values of about the size of one, of both signs, none of them zero.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = (state >> 40) as f32 / (1 << 24) as f32;
        if unit < 0.5 {
            -2.0 * unit - 0.01
        } else {
            2.0 * unit - 0.99
        }
    };
    (0..count).map(|_| next()).collect()
}

fn tensor<const D: usize>(
    shape: [usize; D],
    seed: u64,
    dtype: DType,
    device: &Device,
) -> Tensor<D> {
    let count = shape.iter().product();
    Tensor::<D>::from_data(TensorData::new(noise(count, seed), shape), device).cast(dtype)
}

/// The dtypes of a device. A dtype that Burn has there and the kernel has not is an error of its own
/// type, and known here.
fn dtypes(tag: BackendTag, device: &Device) -> Vec<DType> {
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].into_iter();
    let held = dtypes.filter(|dtype| device.supports_dtype(*dtype));
    let (known, run): (Vec<_>, Vec<_>) = held.partition(|dtype| {
        // CubeCL's CPU runtime lists bf16 and cannot link its conversions.
        (tag, *dtype) == (BackendTag::Cube(CubeRuntime::Cpu), DType::BF16)
    });
    // On a fusion stream the kernel is asked when it runs, not when it is called.
    let asked = if cfg!(feature = "fusion") {
        Vec::new()
    } else {
        known
    };
    for dtype in asked {
        let error = try_rms_norm(tensor([2], 1, dtype, device), None, EPSILON).unwrap_err();
        assert!(
            matches!(error, DispatchError::DTypeUnsupported { .. }),
            "{error}"
        );
    }
    run
}

/// Runs `test` on every device, and says which it ran on.
fn on_every_device(test: impl Fn(BackendTag, &Device)) {
    let devices = available_devices();
    assert!(!devices.is_empty());
    for (tag, device) in devices {
        println!("on {tag}: {device:?}");
        test(tag, &device);
    }
    for tag in missing_devices() {
        println!("not on {tag}: this machine has no such device");
    }
}

/// Holds a call on x (and on what its tracked copy gives) against the closed form.
fn check<const D: usize>(x: Tensor<D>, weighted: bool, what: &str) {
    let (shape, dtype) = (x.dims(), x.dtype());
    let hidden = shape[D - 1];
    let device = x.device().autodiff();
    let weight = weighted.then(|| tensor([hidden], 7, dtype, &device));
    let dy = tensor(shape, 11, dtype, &device);
    let expected = reference(
        &values(x.clone()),
        weight.clone().map(values).as_deref(),
        &values(dy.clone()),
        hidden,
    );
    let assert_within = |of: &str, found: &[f64], expected: &[f64]| {
        let error = relative_error(found, expected);
        assert!(
            error <= bound(dtype),
            "{what} {shape:?} {dtype:?} on {device:?}: {of} is off by {error:e}"
        );
    };

    // Without autodiff.
    let plain = weight.clone().map(Tensor::without_autodiff);
    let y = rms_norm(x.clone(), plain, EPSILON);
    assert_eq!((y.dims(), y.dtype()), (shape, dtype));
    assert_within("y", &values(y), &expected.y);

    // Each tracked alone, and together.
    for (track_x, track_weight) in [(true, false), (false, weighted), (true, weighted)] {
        if !(track_x || track_weight) {
            continue;
        }
        let x = x.clone().autodiff();
        let x = if track_x { x.require_grad() } else { x };
        let weight = weight.clone();
        let weight = if track_weight {
            weight.map(Tensor::require_grad)
        } else {
            weight
        };
        let y = rms_norm(x.clone(), weight.clone(), EPSILON);
        assert_within("y, tracked", &values(y.clone()), &expected.y);
        let grads = (y * dy.clone()).sum().backward();
        assert_eq!(x.grad(&grads).is_some(), track_x);
        if let Some(dx) = x.grad(&grads) {
            assert_eq!(dx.dtype(), dtype);
            // found − expected, seen as an error of the term that may have been cancelled.
            let dx = values(dx)
                .into_iter()
                .zip(&expected.dx)
                .map(|(found, dx)| found - dx);
            let dx: Vec<f64> = dx
                .zip(&expected.dx_term)
                .map(|(off, term)| term + off)
                .collect();
            assert_within("dx", &dx, &expected.dx_term);
        }
        if let (Some(weight), true) = (weight, track_weight) {
            let dweight = weight.grad(&grads).expect("tracked");
            assert_within("dweight", &values(dweight), &expected.dweight);
        }
    }
}

#[test]
fn the_reference_is_the_derivative() {
    // The closed form's gradients against finite differences of its own forward pass.
    let (rows, hidden) = (3, 5);
    let to_f64 = |v: Vec<f32>| v.into_iter().map(f64::from).collect::<Vec<_>>();
    let (x, w) = (to_f64(noise(rows * hidden, 1)), to_f64(noise(hidden, 2)));
    let dy = to_f64(noise(rows * hidden, 3));
    let loss = |x: &[f64], w: &[f64]| -> f64 {
        reference(x, Some(w), &dy, hidden)
            .y
            .iter()
            .zip(&dy)
            .map(|(y, dy)| y * dy)
            .sum()
    };
    let expected = reference(&x, Some(&w), &dy, hidden);
    let dx = finite_differences(&x, |x| loss(x, &w));
    let dw = finite_differences(&w, |w| loss(&x, w));
    assert!(relative_error(&expected.dx, &dx) < 1e-8);
    assert!(relative_error(&expected.dweight, &dw) < 1e-8);
}

#[test]
fn shapes_and_dtypes() {
    on_every_device(|tag, device| {
        for dtype in dtypes(tag, device) {
            let seed = 3;
            for weighted in [false, true] {
                check(tensor([17], seed, dtype, device), weighted, "rank 1");
                check(tensor([33, 127], seed, dtype, device), weighted, "odd rows");
                check(tensor([2, 3, 256], seed, dtype, device), weighted, "rank 3");
            }
            check(tensor([1], seed, dtype, device), true, "one element");
            check(
                tensor([5, 1], seed, dtype, device),
                true,
                "one-element rows",
            );
            check(tensor([3, 8], seed, dtype, device), true, "a vector");
            check(tensor([2, 1, 3, 65], seed, dtype, device), true, "rank 4");
            check(
                tensor([1, 2, 1, 2, 1, 12], seed, dtype, device),
                true,
                "rank 6",
            );
            check(tensor([3, 4099], seed, dtype, device), true, "long rows");
        }
    });
}

#[test]
fn very_long_and_very_many_rows() {
    on_every_device(|_, device| {
        check(
            tensor([2, 40_003], 5, DType::F32, device),
            true,
            "longer than shared memory",
        );
        check(
            tensor([70_001, 3], 5, DType::F32, device),
            true,
            "more rows than a grid dimension",
        );
    });
}

#[test]
fn layouts() {
    on_every_device(|tag, device| {
        for dtype in dtypes(tag, device) {
            let x = || tensor([6, 10, 12], 9, dtype, device);
            check(x().swap_dims(1, 2), true, "transposed");
            check(x().permute([2, 0, 1]), true, "permuted");
            check(x().slice([1..5, 2..9, 3..11]), true, "sliced with offset");
            check(
                x().slice([0..6, 0..1, 0..12]).expand([6, 4, 12]),
                true,
                "expanded rows",
            );
            check(
                x().slice([0..6, 0..10, 0..1]).expand([6, 10, 8]),
                true,
                "expanded elements",
            );
            check(x().flip([0, 2]), true, "flipped");
        }
    });
}

#[test]
fn nothing_to_do() {
    on_every_device(|_, device| {
        for shape in [[0, 8], [3, 0], [0, 0]] {
            let device = device.clone().autodiff();
            let x = Tensor::<2>::zeros(shape, &device).require_grad();
            let weight = Tensor::<1>::ones([shape[1]], &device).require_grad();
            let y = rms_norm(x.clone(), Some(weight.clone()), EPSILON);
            assert_eq!(y.dims(), shape);
            let grads = y.sum().backward();
            assert_eq!(x.grad(&grads).unwrap().dims(), shape);
            let dweight = weight.grad(&grads).unwrap();
            assert_eq!(values(dweight), vec![0.0; shape[1]]);
        }
    });
}

#[test]
fn rows_of_zeros_are_zeros() {
    on_every_device(|_, device| {
        let y = rms_norm(Tensor::<2>::zeros([2, 5], device), None, EPSILON);
        assert_eq!(values(y), vec![0.0; 10]);
    });
}

#[test]
fn not_a_number_stays_in_its_row() {
    on_every_device(|_, device| {
        let x = Tensor::<2>::from_floats([[1.0, f32::NAN], [3.0, 4.0]], device);
        let y = values(rms_norm(x, None, 0.0));
        assert!(y[0].is_nan() && y[1].is_nan(), "{y:?}");
        assert!(
            relative_error(&y[2..], &[0.6 * 2f64.sqrt(), 0.8 * 2f64.sqrt()]) < 1e-6,
            "{y:?}"
        );
    });
}

#[test]
fn the_composite_is_right_too() {
    // It is the rest arm of backends that this machine does not have.
    on_every_device(|tag, device| {
        for dtype in dtypes(tag, device) {
            let x: Tensor<2> = tensor([4, 33], 3, dtype, device);
            let weight: Tensor<1> = tensor([33], 7, dtype, device);
            let (xs, ws) = (values(x.clone()), values(weight.clone()));
            let expected = reference(&xs, Some(&ws), &vec![0.0; xs.len()], 33);
            let inputs = (x.into_dispatch(), Some(weight.into_dispatch()));
            let y = RmsNorm { epsilon: EPSILON }
                .composite_on_dispatch(inputs)
                .unwrap();
            let error = relative_error(&values(Tensor::<2>::from_dispatch(y)), &expected.y);
            assert!(error <= bound(dtype), "{dtype:?} on {device:?}: {error:e}");
        }
    });
}

#[test]
fn inputs_are_left_alone() {
    on_every_device(|_, device| {
        let x: Tensor<2> = tensor([4, 9], 3, DType::F32, device);
        let before = values(x.clone());
        let _ = values(rms_norm(x.clone(), None, EPSILON));
        assert_eq!(values(x), before);
    });
}

#[test]
fn mistakes_are_named_with_their_cure() {
    on_every_device(|_, device| {
        let x = Tensor::<2>::ones([2, 4], device);
        let text = |result: Result<Tensor<2>, DispatchError>| result.unwrap_err().to_string();
        assert_eq!(
            text(try_rms_norm(
                x.clone(),
                Some(Tensor::ones([3], device)),
                EPSILON
            )),
            "op `rms_norm`: input `weight` must be of shape [4], the last dimension of x, but is \
             of shape [3]; change `weight`"
        );
        assert_eq!(
            text(try_rms_norm(x.clone(), None, f64::NAN)),
            "op `rms_norm`: input `epsilon` must be finite and not negative, but is NaN; change \
             `epsilon`"
        );
        assert_eq!(
            text(try_rms_norm(x.clone(), None, -1.0)),
            "op `rms_norm`: input `epsilon` must be finite and not negative, but is -1; change \
             `epsilon`"
        );
        if device.supports_dtype(DType::F64) {
            let weight = Tensor::<1>::ones([4], device).cast(DType::F64);
            assert_eq!(
                text(try_rms_norm(x, Some(weight), EPSILON)),
                "op `rms_norm`: input `weight` must be of x's dtype, F32, but is of the dtype F64; \
                 change `weight`"
            );
        }
    });
}

#[cfg(all(feature = "flex", feature = "ndarray"))]
#[test]
#[should_panic(
    expected = "op `rms_norm`: input `weight` is on the backend `ndarray`, but the op runs on `flex`"
)]
fn the_convenience_panics_with_the_text_of_the_error() {
    let x = Tensor::<1>::ones([2], &Device::flex());
    let _ = rms_norm(x, Some(Tensor::ones([2], &Device::ndarray())), EPSILON);
}

#[test]
fn many_threads_at_once() {
    on_every_device(|_, device| {
        let x: Tensor<2> = tensor([64, 100], 3, DType::F32, device);
        let expected = values(rms_norm(x.clone(), None, EPSILON));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        assert_eq!(values(rms_norm(x.clone(), None, EPSILON)), expected);
                    }
                });
            }
        });
    });
}

#[test]
fn two_layers_train() {
    // A call whose result feeds another, with a parameter that both use: gradients accumulate.
    on_every_device(|_, device| {
        let device = device.clone().autodiff();
        let x: Tensor<2> = tensor([3, 6], 3, DType::F32, &device);
        let weight: Tensor<1> = tensor::<1>([6], 7, DType::F32, &device).require_grad();
        let inner = rms_norm(x.clone(), Some(weight.clone()), EPSILON);
        let outer = rms_norm(inner, Some(weight.clone()), EPSILON);
        let grads = outer.powi_scalar(2).sum().backward();
        let (xs, ws) = (values(x), values(weight.clone()));
        let loss = |w: &[f64]| -> f64 {
            let zeros = vec![0.0; xs.len()];
            let inner = reference(&xs, Some(w), &zeros, 6).y;
            reference(&inner, Some(w), &zeros, 6)
                .y
                .iter()
                .map(|y| y * y)
                .sum()
        };
        let error = relative_error(
            &values(weight.grad(&grads).unwrap()),
            &finite_differences(&ws, loss),
        );
        assert!(error < 1e-4, "on {device:?}: {error:e}");
    });
}

#[test]
fn every_backend_of_the_build_is_covered() {
    for row in coverage::<RmsNorm>().iter().flatten() {
        assert!(
            row.forward.runs() && row.gradient.is_none_or(|gradient| gradient.runs()),
            "{row:?}"
        );
    }
}

mod shapes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn any_shape_is_right(rows in 0usize..40, hidden in 1usize..300, weighted: bool) {
            for (tag, device) in available_devices() {
                // The CPU backends alone: on the others each shape can mean a kernel to compile.
                if matches!(tag, BackendTag::NdArray | BackendTag::Flex) && rows > 0 {
                    check(tensor([rows, hidden], 13, DType::F32, &device), weighted, "any");
                }
            }
        }

        #[test]
        fn any_mismatch_is_an_error(hidden in 0usize..9, weight in 0usize..9, epsilon: f64) {
            let (_, device) = available_devices().remove(0);
            let x = Tensor::<2>::random([2, hidden], Distribution::Default, &device);
            let result = try_rms_norm(x, Some(Tensor::ones([weight], &device)), epsilon);
            let fits = hidden == weight && epsilon.is_finite() && epsilon >= 0.0;
            prop_assert_eq!(result.is_ok(), fits);
            if let Err(error) = result {
                prop_assert!(
                    matches!(error, DispatchError::InvalidInput { .. }),
                    "{}", error
                );
            }
        }
    }
}

#[test]
fn rank_zero_is_refused() {
    // Out of reach of `Tensor<D>`, but not of who calls `dispatch` on routed tensors.
    use burn_armature::core::{Op, TensorSpec};
    let op = RmsNorm { epsilon: EPSILON };
    let spec = TensorSpec::new([0usize; 0], DType::F32);
    let error = op.infer(&(spec, None)).unwrap_err();
    assert_eq!(
        (error.expected.as_str(), error.found.as_str()),
        ("of rank 1 or more", "of rank 0")
    );
}
