use burn_armature::core::backend::{Dispatch, Flex};
use burn_armature::core::{
    Arm, ArmKind, DispatchError, Float, In, InvalidInput, Op, Out, Rest, TensorSpec, dispatch,
};

#[derive(Clone, Debug)]
struct Negate;

impl Op for Negate {
    const NAME: &'static str = "negate";
    type Inputs = Float;
    type Output = Float;
    fn infer(&self, x: &TensorSpec) -> Result<TensorSpec, InvalidInput> {
        Ok(x.clone())
    }
}

impl Arm<Flex> for Negate {
    fn forward(&self, x: In<Self, Flex>) -> Result<Out<Self, Flex>, DispatchError> {
        Ok(x)
    }
}

impl Rest for Negate {
    const KIND: Option<ArmKind> = None;
    fn composite_on_dispatch(
        &self,
        x: In<Self, Dispatch>,
    ) -> Result<Out<Self, Dispatch>, DispatchError> {
        Ok(x)
    }
}

fn main() {
    let x = burn::tensor::Tensor::<1>::ones([1], &burn::tensor::Device::flex());
    let _ = dispatch(Negate, x.into_dispatch());
}
