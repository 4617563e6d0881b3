//! The ops that the benches measure, declared both ways.

#![allow(deprecated)] // NdArray is deprecated in Burn, and served here.

use armature_core::{Float, InvalidInput, Op, TensorSpec, arms, dispatch};
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, NdArray, backend_extension};
use burn::tensor::Tensor;

/// Gives its input back: all that is left is the way there and back.
#[backend_extension(Flex, NdArray, Autodiff)]
pub trait Identity: Backend {
    /// x.
    fn identity(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self>;
    /// x + y.
    fn plus(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self>;
}

macro_rules! identity {
    ($backend:ty) => {
        impl Identity for $backend {
            fn identity(x: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
                x
            }
            fn plus(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
                add::<Self>(x, y)
            }
        }
    };
}

fn add<B: Backend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    B::float_add(x, y)
}
identity!(Flex);
identity!(NdArray);

impl<B: Identity, C: CheckpointStrategy> Identity for Autodiff<B, C> {
    fn identity(x: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }
    fn plus(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
        add::<Self>(x, y)
    }
}

macro_rules! binary {
    ($(#[$doc:meta])* $op:ident, $name:literal, $method:ident, $function:ident, $burn:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $op;

        impl Op for $op {
            const NAME: &'static str = $name;
            const INPUTS: &'static [&'static str] = &["x", "y"];
            type Inputs = (Float, Float);
            type Output = Float;
            fn infer(&self, (x, y): &(TensorSpec, TensorSpec)) -> Result<TensorSpec, InvalidInput> {
                if x != y {
                    let found = format_args!("{:?} {:?}", &y.shape[..], y.dtype);
                    return Err(InvalidInput::new("y", "like x", found));
                }
                Ok(x.clone())
            }
        }

        arms! {
            impl $op {
                forward {
                    NdArray => |_, (x, y)| Ok(<NdArray as Identity>::$method(x, y)),
                    Flex => |_, (x, y)| Ok(<Flex as Identity>::$method(x, y)),
                    _ => unsupported("a bench of the CPU backends"),
                }
                gradient { _ => unsupported("a bench of forward calls") }
            }
        }

        /// Through Armature.
        pub fn $function(x: Tensor<1>, y: Tensor<1>) -> Tensor<1> {
            let inputs = (x.into_dispatch(), y.into_dispatch());
            dispatch($op, inputs).map(Tensor::from_dispatch).unwrap_or_else(|error| panic!("{error}"))
        }

        /// Through Burn's generated dispatch.
        pub fn $burn(x: Tensor<1>, y: Tensor<1>) -> Tensor<1> {
            Tensor::from_dispatch(Dispatch::$method(x.into_dispatch(), y.into_dispatch()))
        }
    };
}
binary!(
    /// See [`Identity::identity`].
    IdentityOp, "identity", identity, armature_identity, burn_identity
);
binary!(
    /// See [`Identity::plus`].
    PlusOp, "plus", plus, armature_plus, burn_plus
);
