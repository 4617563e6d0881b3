//! The op on every backend of the build that this machine has, against its closed form.

use armature_core::BackendTag;
use armature_core::backend::devices;
use burn::tensor::{Device, Tensor};
use custom_op::silu_mul;

const GATE: [f32; 5] = [-3.0, -0.5, 0.0, 0.5, 4.0];
const UP: [f32; 5] = [1.0, -2.0, 3.0, 0.25, -1.0];

fn all_devices() -> Vec<Device> {
    BackendTag::ALL.into_iter().flat_map(devices).collect()
}

fn assert_close(tensor: Tensor<1>, expected: [f64; 5]) {
    let found = tensor
        .into_data()
        .convert::<f64>()
        .try_to_vec::<f64>()
        .unwrap();
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn values_and_gradients() {
    for device in all_devices() {
        println!("on {device:?}");
        let device = device.autodiff();
        let gate = Tensor::<1>::from_floats(GATE, &device).require_grad();
        let up = Tensor::<1>::from_floats(UP, &device).require_grad();
        let y = silu_mul(gate.clone(), up.clone()).unwrap();
        let grads = y.clone().sum().backward();

        let sigma = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
        let each = |f: &dyn Fn(f32, f32) -> f64| std::array::from_fn(|i| f(GATE[i], UP[i]));
        assert_close(y, each(&|g, u| f64::from(g) * sigma(g) * f64::from(u)));
        let slope = |g: f32| sigma(g) * (1.0 + f64::from(g) * (1.0 - sigma(g)));
        assert_close(
            gate.grad(&grads).unwrap(),
            each(&|g, u| slope(g) * f64::from(u)),
        );
        assert_close(
            up.grad(&grads).unwrap(),
            each(&|g, _| f64::from(g) * sigma(g)),
        );
    }
}

#[test]
fn shapes_that_differ_are_named() {
    for device in all_devices() {
        let one = Tensor::<1>::ones([3], &device);
        let error = silu_mul(one, Tensor::ones([4], &device)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "op `silu_mul`: input `up` must be of shape [3] and dtype F32, but is of shape [4] and \
             dtype F32; change `up`"
        );
    }
}
