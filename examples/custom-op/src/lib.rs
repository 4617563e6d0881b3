//! `silu_mul(gate, up) = gate·σ(gate) ⊙ up`, the middle of a SwiGLU layer (Shazeer, 2020, arXiv
//! 2002.05202), in one pass: an op with kernels for Flex, NdArray and CubeCL, and a gradient.

use armature_core::tree::Needs;
use armature_core::{
    Composite, Differentiable, DispatchError, Float, In, InvalidInput, Op, Out, Saved, Specs,
    TensorSpec, arms, dispatch,
};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Tensor};

#[cfg(any(feature = "flex", feature = "ndarray"))]
mod cpu;
#[cfg(feature = "cube")]
mod cube;

/// See the crate's documentation. Two inputs of one shape and dtype, one output like them.
#[derive(Clone, Copy, Debug)]
pub struct SiluMul;

impl Op for SiluMul {
    const NAME: &'static str = "silu_mul";
    const INPUTS: &'static [&'static str] = &["gate", "up"];
    type Inputs = (Float, Float);
    type Output = Float;

    fn infer(&self, (gate, up): &In<Self, Specs>) -> Result<TensorSpec, InvalidInput> {
        if gate.dtype != DType::F32 {
            return Err(InvalidInput::new(
                "gate",
                "F32",
                format_args!("{:?}", gate.dtype),
            ));
        }
        if up != gate {
            let expected = format_args!("of shape {:?} and dtype F32", &gate.shape[..]);
            let found = format_args!("of shape {:?} and dtype {:?}", &up.shape[..], up.dtype);
            return Err(InvalidInput::new("up", expected, found));
        }
        Ok(gate.clone())
    }
}

/// Built from Burn's primitive ops, for every backend that has no kernel below.
impl Composite for SiluMul {
    fn composite<B: Backend>(&self, (gate, up): In<Self, B>) -> Out<Self, B> {
        B::float_mul(silu::<B>(gate), up)
    }
}

fn silu<B: Backend>(gate: B::FloatTensorPrimitive) -> B::FloatTensorPrimitive {
    B::float_mul(gate.clone(), B::sigmoid(gate))
}

impl Differentiable for SiluMul {
    type Saved = (Float, Float);
    fn infer_saved(&self, inputs: &In<Self, Specs>) -> Saved<Self, Specs> {
        inputs.clone()
    }
}

arms! {
    impl SiluMul {
        forward {
            #[cfg(feature = "flex")]
            Flex => |_, (gate, up)| Ok(cpu::flex(gate, up)),
            #[cfg(feature = "ndarray")]
            NdArray => |_, (gate, up)| cpu::ndarray(gate, up),
            #[cfg(feature = "cube")]
            Cube => |_, (gate, up)| Ok(cube::silu_mul(gate, up)),
            _ => composite,
        }
        // One formula, in Burn's primitive ops, serves every backend.
        gradient { B @ _ => (forward_saving::<B>, backward::<B>) }
    }
}

fn forward_saving<B>(
    op: &SiluMul,
    inputs: In<SiluMul, B>,
) -> Result<(Out<SiluMul, B>, Saved<SiluMul, B>), DispatchError>
where
    B: Backend,
    SiluMul: armature_core::Arm<B>,
{
    use armature_core::Arm;
    Ok((op.forward(inputs.clone())?, inputs))
}

/// With s = σ(gate): `d gate = dy·up·s·(1 + gate·(1 − s))` and `d up = dy·gate·s`.
fn backward<B: Backend>(
    _: &SiluMul,
    (gate, up): Saved<SiluMul, B>,
    dy: Option<B::FloatTensorPrimitive>,
    (needs_gate, needs_up): &In<SiluMul, Needs>,
) -> Result<
    (
        Option<B::FloatTensorPrimitive>,
        Option<B::FloatTensorPrimitive>,
    ),
    DispatchError,
> {
    let Some(dy) = dy else {
        return Ok((None, None));
    };
    let s = B::sigmoid(gate.clone());
    let d_gate = needs_gate.then(|| {
        let ones = B::float_ones(s.shape(), &s.device(), s.dtype().into());
        let slope = B::float_mul(gate.clone(), B::float_sub(ones, s.clone()));
        let slope = B::float_mul(s.clone(), B::float_add_scalar(slope, 1.0.into()));
        B::float_mul(B::float_mul(dy.clone(), up.clone()), slope)
    });
    let d_up = needs_up.then(|| B::float_mul(dy.clone(), B::float_mul(gate.clone(), s.clone())));
    Ok((d_gate, d_up))
}

/// `gate·σ(gate) ⊙ up`, elementwise.
///
/// # Errors
///
/// Where shapes or dtypes differ or are not F32, or the tensors are not together.
pub fn silu_mul<const D: usize>(
    gate: Tensor<D>,
    up: Tensor<D>,
) -> Result<Tensor<D>, DispatchError> {
    let inputs = (gate.into_dispatch(), up.into_dispatch());
    dispatch(SiluMul, inputs).map(Tensor::from_dispatch)
}
