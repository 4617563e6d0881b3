//! Gradients lifted through `Autodiff`, against what Burn's own graph gives for the same formulas.

#![cfg(feature = "autodiff")]
#![allow(deprecated)]

mod common;

use armature_core::{DispatchError, dispatch};
use burn::tensor::{Device, Int, Tensor};
use common::{EveryNth, FlexOnly, PickRows, SinCos, WeightedSum, assert_close, devices, values};

/// The devices, with autodiff, and both checkpointing strategies.
fn autodiff_devices() -> Vec<Device> {
    let plain = devices().into_iter().map(Device::autodiff);
    plain
        .flat_map(|device| [device.clone(), device.gradient_checkpointing()])
        .collect()
}

fn pick(
    x: Tensor<2>,
    rows: Tensor<1, Int>,
    bias: Option<Tensor<1>>,
) -> (Tensor<2>, Tensor<1, Int>) {
    let inputs = (
        x.into_dispatch(),
        rows.into_dispatch(),
        bias.map(Tensor::into_dispatch),
    );
    let (y, count) = dispatch(PickRows { scale: 2.0 }, inputs).unwrap();
    (Tensor::from_dispatch(y), Tensor::from_dispatch(count))
}

#[test]
fn float_optional_and_int_inputs() {
    for device in autodiff_devices() {
        let x = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &device).require_grad();
        let rows = Tensor::<1, Int>::from_ints([1, 1, 0], &device);
        let bias = Tensor::<1>::from_floats([0.5, -0.5], &device).require_grad();

        // y = 2·x[rows] + bias and the loss Σ y²: dx = 4·y scattered, dbias = Σ 2·y.
        let (y, count) = pick(x.clone(), rows.clone(), Some(bias.clone()));
        let grads = y.clone().powi_scalar(2).sum().backward();
        assert_close(&values(y), &[6.5, 7.5, 6.5, 7.5, 2.5, 3.5]);
        assert_close(&values(x.grad(&grads).unwrap()), &[10.0, 14.0, 52.0, 60.0]);
        assert_close(&values(bias.grad(&grads).unwrap()), &[31.0, 37.0]);
        // The int output stays in the context, so that it can meet the float one again.
        let (again, _) = pick(x.clone(), count.sub_scalar(1), None);
        assert_close(&values(again), &[6.0, 8.0, 6.0, 8.0, 2.0, 4.0]);

        // Without the optional input, and used twice.
        let (first, _) = pick(x.clone(), rows.clone(), None);
        let (second, _) = pick(x.clone(), rows, None);
        let grads = (first + second).sum().backward();
        assert_close(&values(x.grad(&grads).unwrap()), &[4.0, 4.0, 8.0, 8.0]);
    }
}

#[test]
fn a_tensor_without_autodiff_is_a_constant() {
    for plain in devices() {
        let device = plain.clone().autodiff();
        let x = Tensor::<2>::from_floats([[1.0, 2.0]], &plain);
        let rows = Tensor::<1, Int>::from_ints([0], &plain);
        let bias = Tensor::<1>::from_floats([1.0, 1.0], &device).require_grad();
        let (y, _) = pick(x, rows, Some(bias.clone()));
        let grads = y.sum().backward();
        assert_close(&values(bias.grad(&grads).unwrap()), &[1.0, 1.0]);
    }
}

#[test]
fn several_differentiable_outputs() {
    for device in autodiff_devices() {
        let start = [0.3_f32, -1.2, 2.0];
        let x = Tensor::<1>::from_floats(start, &device).require_grad();
        let sin_cos = |x: &Tensor<1>| {
            let (sin, cos) = dispatch(SinCos, x.clone().into_dispatch()).unwrap();
            (
                Tensor::<1>::from_dispatch(sin),
                Tensor::<1>::from_dispatch(cos),
            )
        };

        // Both: d(3·sin + cos²) = 3·cos − 2·sin·cos.
        let (sin, cos) = sin_cos(&x);
        let grads = (sin.mul_scalar(3.0) + cos.powi_scalar(2)).sum().backward();
        let expected = start.map(|x| 3.0 * x.cos() - 2.0 * x.sin() * x.cos());
        assert_close(&values(x.grad(&grads).unwrap()), &expected);

        // One alone, each.
        let (sin, _) = sin_cos(&x);
        assert_close(
            &values(x.grad(&sin.sum().backward()).unwrap()),
            &start.map(f32::cos),
        );
        let (_, cos) = sin_cos(&x);
        assert_close(
            &values(x.grad(&cos.sum().backward()).unwrap()),
            &start.map(|x| -x.sin()),
        );

        // One through the other: d cos(sin x) = −sin(sin x)·cos x.
        let (sin, _) = sin_cos(&x);
        let (_, cos) = sin_cos(&sin);
        let expected = start.map(|x| -x.sin().sin() * x.cos());
        assert_close(&values(x.grad(&cos.sum().backward()).unwrap()), &expected);
    }
}

#[test]
fn any_number_of_inputs() {
    for device in autodiff_devices() {
        for count in [1, 2, 3, 5, 9, 16, 17, 40, 300] {
            let inputs: Vec<_> = (0..count)
                .map(|i| {
                    let x = Tensor::<1>::from_floats([1.0, i as f32], &device);
                    // Every third is a constant.
                    if i % 3 == 2 { x } else { x.require_grad() }
                })
                .collect();
            let tensors = inputs.iter().cloned().map(Tensor::into_dispatch).collect();
            let y = Tensor::<1>::from_dispatch(dispatch(WeightedSum, tensors).unwrap());
            let grads = y.mul_scalar(0.5).sum().backward();
            for (i, x) in inputs.iter().enumerate() {
                let grad = x.grad(&grads);
                if i % 3 == 2 {
                    assert!(grad.is_none());
                } else {
                    let expected = 0.5 * (i as f32 + 1.0);
                    assert_close(&values(grad.unwrap()), &[expected, expected]);
                }
            }
        }
    }
}

#[test]
fn without_a_gradient_arm_burn_differentiates_the_composite() {
    for device in autodiff_devices() {
        let x = Tensor::<1>::from_floats([1.0, 2.0, 3.0], &device).require_grad();
        let y = dispatch(EveryNth::<2>, x.clone().into_dispatch()).unwrap();
        let grads = Tensor::<1>::from_dispatch(y)
            .powi_scalar(2)
            .sum()
            .backward();
        assert_close(&values(x.grad(&grads).unwrap()), &[2.0, 0.0, 6.0]);
    }
}

#[cfg(feature = "flex")]
#[test]
fn a_gradient_that_is_not_there_is_an_error_for_tracked_tensors_alone() {
    let device = Device::flex().autodiff();
    let x = Tensor::<1>::from_floats([1.0], &device);
    let y = dispatch(FlexOnly, x.clone().into_dispatch()).unwrap();
    assert_close(&values(Tensor::<1>::from_dispatch(y)), &[2.0]);

    let error = dispatch(FlexOnly, x.require_grad().into_dispatch()).unwrap_err();
    assert!(matches!(error, DispatchError::GradientUnsupported { .. }));
    assert_eq!(
        error.to_string(),
        "op `flex_only` has no gradient on the backend `flex`: nobody has worked it out; call it \
         on `Tensor::detach`ed inputs, or give the op a gradient arm for `flex`"
    );
}

#[cfg(feature = "flex")]
#[test]
fn strategies_do_not_mix() {
    let one = Tensor::<1>::ones([1], &Device::flex().autodiff());
    let other = Tensor::<1>::ones([1], &Device::flex().autodiff().gradient_checkpointing());
    let error = dispatch(
        WeightedSum,
        vec![one.into_dispatch(), other.into_dispatch()],
    )
    .unwrap_err();
    assert!(
        matches!(error, DispatchError::CheckpointingMixed { .. }),
        "{error}"
    );
}
