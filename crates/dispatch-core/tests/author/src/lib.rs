//! An op of a crate without features: what its declaration expands to follows armature-core's.

use armature_core::{Composite, Float, In, InvalidInput, Op, Out, TensorSpec, arms};
use burn::backend::Backend;

/// `2·x`.
#[derive(Clone, Debug)]
pub struct Twice;

impl Op for Twice {
    const NAME: &'static str = "twice";
    type Inputs = Float;
    type Output = Float;
    fn infer(&self, x: &TensorSpec) -> Result<TensorSpec, InvalidInput> {
        Ok(x.clone())
    }
}

impl Composite for Twice {
    fn composite<B: Backend>(&self, x: In<Self, B>) -> Out<Self, B> {
        B::float_mul_scalar(x, 2.0.into())
    }
}

arms! {
    impl Twice {
        forward {
            B @ (NdArray | Flex) => |op, x| Ok(op.composite::<B>(x)),
            _ => composite,
        }
    }
}
