use armature_core::{Float, InvalidInput, Op, TensorSpec, arms};

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
            NdArray => |_, x| Ok(x),
            Flex => |_, x| Ok(x),
        }
        gradient { _ => unsupported("a test of drift") }
    }
}

fn main() {}
