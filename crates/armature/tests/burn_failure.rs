//! The failure that Armature exists to end, seen to happen in Burn.

#![cfg(all(feature = "flex", feature = "ndarray"))]
#![allow(deprecated, missing_docs)]

use armature_core::{DispatchError, Float, InvalidInput, Op, TensorSpec, arms, dispatch};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Device, Tensor};
use burn_armature as _;

#[backend_extension(Flex)]
pub trait Twice: Backend {
    fn twice(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Twice for Flex {
    fn twice(x: FloatTensor<Self>) -> FloatTensor<Self> {
        double::<Self>(x)
    }
}

fn double<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_mul_scalar(x, 2.0.into())
}

#[derive(Clone, Debug)]
struct TwiceOp;

impl Op for TwiceOp {
    const NAME: &'static str = "twice";
    type Inputs = Float;
    type Output = Float;
    fn infer(&self, x: &TensorSpec) -> Result<TensorSpec, InvalidInput> {
        Ok(x.clone())
    }
}

arms! {
    impl TwiceOp {
        forward {
            Flex => |_, x| Ok(double::<Flex>(x)),
            // Without this line the declaration does not compile: see tests/ui.
            _ => unsupported("it is written for Flex"),
        }
        gradient { _ => unsupported("it is a demonstration") }
    }
}

fn x(device: &Device) -> Tensor<1> {
    Tensor::from_floats([1.0, 2.0], device)
}

#[test]
fn both_run_where_they_are_declared() {
    let burn = Tensor::<1>::from_dispatch(Dispatch::twice(x(&Device::flex()).into_dispatch()));
    let armature = dispatch(TwiceOp, x(&Device::flex()).into_dispatch()).unwrap();
    burn.into_data()
        .assert_eq(&Tensor::<1>::from_dispatch(armature).into_data(), true);
}

#[test]
#[should_panic(expected = "Backend not supported for custom op `twice`")]
fn elsewhere_burn_panics() {
    let _ = Dispatch::twice(x(&Device::ndarray()).into_dispatch());
}

#[test]
fn elsewhere_armature_returns_an_error_that_says_what_to_do() {
    let error = dispatch(TwiceOp, x(&Device::ndarray()).into_dispatch()).unwrap_err();
    assert!(matches!(error, DispatchError::Unsupported { .. }));
    assert_eq!(
        error.to_string(),
        "op `twice` does not run on the backend `ndarray`: it is written for Flex; move the \
         inputs, with `Tensor::to_device`, to one of `flex`"
    );
}
