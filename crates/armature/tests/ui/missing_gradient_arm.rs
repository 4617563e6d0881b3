use burn_armature::core::{Float, InvalidInput, Op, TensorSpec, arms};

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

arms! {
    impl Negate {
        forward {
            Flex => |_, x| Ok(x),
            NdArray => |_, x| Ok(x),
        }
    }
}

fn main() {}
