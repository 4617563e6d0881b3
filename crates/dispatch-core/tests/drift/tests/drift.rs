//! A backend and autodiff switched on in burn alone: an op with a composite runs it, an op without
//! one does not compile.

#![allow(deprecated)]

use armature_core::{BackendTag, coverage, dispatch, drift, tag_of};
use armature_test_author::Twice;
use burn::tensor::{Device, Tensor};

#[test]
fn the_drift_is_there() {
    assert!(drift::NDARRAY && drift::AUTODIFF);
    assert!(!drift::FLEX && !drift::CUBE && !drift::CAPTURE);
    let compiled: Vec<_> = coverage::<Twice>()
        .iter()
        .flatten()
        .map(|row| row.backend)
        .collect();
    assert_eq!(compiled, [BackendTag::Flex]);
}

#[test]
fn a_composite_runs_on_the_unknown_backend_with_gradients() {
    for device in [Device::flex(), Device::ndarray()] {
        let x = Tensor::<1>::from_floats([1.0, -3.0], &device);
        let y = dispatch(Twice, x.into_dispatch()).unwrap();
        let y = Tensor::<1>::from_dispatch(y).into_data();
        assert_eq!(y.try_to_vec::<f32>().unwrap(), [2.0, -6.0]);

        let x = Tensor::<1>::from_floats([1.0, -3.0], &device.autodiff()).require_grad();
        let y = dispatch(Twice, x.clone().into_dispatch()).unwrap();
        let grads = Tensor::<1>::from_dispatch(y)
            .powi_scalar(2)
            .sum()
            .backward();
        let dx = x.grad(&grads).unwrap().into_data();
        assert_eq!(dx.try_to_vec::<f32>().unwrap(), [8.0, -24.0]);
    }
    let unknown = Tensor::<1>::from_floats([1.0], &Device::ndarray()).into_dispatch();
    assert_eq!(tag_of(&unknown), None);
}

#[test]
fn without_a_composite_it_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
