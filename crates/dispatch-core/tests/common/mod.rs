//! Ops of many forms, each made of Burn's primitive ops so that any backend can be listed as a
//! kernel, and whose values are known in closed form.

// Each test file uses its part; NdArray is deprecated in Burn.
#![allow(dead_code, unreachable_pub, deprecated, clippy::ptr_arg)]

use std::sync::atomic::{AtomicUsize, Ordering};

use armature_core::tree::{Grads, Needs};
use armature_core::{
    BackendTag, Composite, Differentiable, DispatchError, Float, In, Int, InvalidInput, Op, Out,
    Saved, Specs, TensorSpec, arms,
};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Device, IndexingUpdateOp, Shape, Slice, Tensor};

/// A device of every backend of this test build that this machine has and that computes.
pub fn devices() -> Vec<Device> {
    let tags = BackendTag::ALL
        .into_iter()
        .filter(|tag| *tag != BackendTag::Capture);
    let devices: Vec<_> = tags
        .filter_map(|tag| armature_core::backend::devices(tag).into_iter().next())
        .collect();
    assert!(!devices.is_empty());
    devices
}

/// The values of a float tensor.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_to_vec().unwrap()
}

pub fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for (found_one, expected_one) in found.iter().zip(expected) {
        let error = (found_one - expected_one).abs();
        assert!(
            error <= 1e-5 * expected_one.abs().max(1.0),
            "{found:?}\n{expected:?}"
        );
    }
}

/// Rows of `x` by index, scaled, plus a bias; and where each came from, counted from one. An int
/// input, an optional input, two outputs of different kinds.
#[derive(Clone, Debug)]
pub struct PickRows {
    pub scale: f64,
}

impl Op for PickRows {
    const NAME: &'static str = "pick_rows";
    const INPUTS: &'static [&'static str] = &["x", "rows", "bias"];
    type Inputs = (Float, Int, Option<Float>);
    type Output = (Float, Int);

    fn infer(&self, (x, rows, bias): &In<Self, Specs>) -> Result<Out<Self, Specs>, InvalidInput> {
        let [_, width] = x.shape[..] else {
            let found = format_args!("of rank {}", x.shape.num_dims());
            return Err(InvalidInput::new("x", "of rank 2", found));
        };
        let [count] = rows.shape[..] else {
            let found = format_args!("of rank {}", rows.shape.num_dims());
            return Err(InvalidInput::new("rows", "of rank 1", found));
        };
        if let Some(bias) = bias
            && bias.shape[..] != [width]
        {
            let expected = format_args!("of shape [{width}]");
            let found = format_args!("of shape {:?}", &bias.shape[..]);
            return Err(InvalidInput::new("bias", expected, found));
        }
        Ok((TensorSpec::new([count, width], x.dtype), rows.clone()))
    }
}

impl Composite for PickRows {
    fn composite<B: Backend>(&self, (x, rows, bias): In<Self, B>) -> Out<Self, B> {
        let width = x.shape()[1];
        let y = B::float_select(x, 0, rows.clone());
        let y = B::float_mul_scalar(y, self.scale.into());
        let y = match bias {
            Some(bias) => B::float_add(y, B::float_reshape(bias, Shape::new([1, width]))),
            None => y,
        };
        (y, B::int_add_scalar(rows, 1.into()))
    }
}

impl Differentiable for PickRows {
    type Saved = (Float, Int);
    fn infer_saved(&self, (x, rows, _): &In<Self, Specs>) -> Saved<Self, Specs> {
        (x.clone(), rows.clone())
    }
}

pub static SAVING: AtomicUsize = AtomicUsize::new(0);

impl PickRows {
    fn kernel<B: Backend>(&self, inputs: In<Self, B>) -> Result<Out<Self, B>, DispatchError> {
        Ok(self.composite::<B>(inputs))
    }
    fn forward_saving<B: Backend>(
        &self,
        inputs: In<Self, B>,
    ) -> Result<(Out<Self, B>, Saved<Self, B>), DispatchError> {
        SAVING.fetch_add(1, Ordering::Relaxed);
        let saved = (inputs.0.clone(), inputs.1.clone());
        Ok((self.composite::<B>(inputs), saved))
    }
    fn backward<B: Backend>(
        &self,
        (x, rows): Saved<Self, B>,
        (grad, ()): Out<Self, Grads<B>>,
        needs: &In<Self, Needs>,
    ) -> Result<In<Self, Grads<B>>, DispatchError> {
        let grad = grad.expect("the only float output");
        let dx = needs.0.then(|| {
            let zeros = B::float_zeros(x.shape(), &x.device(), x.dtype().into());
            B::float_select_assign(
                zeros,
                0,
                rows,
                B::float_mul_scalar(grad.clone(), self.scale.into()),
                IndexingUpdateOp::Add,
            )
        });
        let width = grad.shape()[1];
        let dbias = needs.2.map(|needed| {
            needed.then(|| B::float_reshape(B::float_sum_dim(grad.clone(), 0), Shape::new([width])))
        });
        Ok((dx, (), dbias))
    }
}

arms! {
    impl PickRows {
        forward {
            B @ (NdArray | Flex | Cube) => PickRows::kernel::<B>,
            _ => composite,
        }
        gradient {
            B @ (NdArray | Flex | Cube) => (PickRows::forward_saving::<B>, PickRows::backward::<B>),
            _ => composite,
        }
    }
}

/// Two differentiable outputs: (sin x, cos x).
#[derive(Clone, Debug)]
pub struct SinCos;

impl Op for SinCos {
    const NAME: &'static str = "sin_cos";
    type Inputs = Float;
    type Output = (Float, Float);
    fn infer(&self, x: &TensorSpec) -> Result<Out<Self, Specs>, InvalidInput> {
        Ok((x.clone(), x.clone()))
    }
}

impl Composite for SinCos {
    fn composite<B: Backend>(&self, x: In<Self, B>) -> Out<Self, B> {
        (B::float_sin(x.clone()), B::float_cos(x))
    }
}

impl Differentiable for SinCos {
    type Saved = (Float, Float);
    fn infer_saved(&self, x: &TensorSpec) -> Saved<Self, Specs> {
        (x.clone(), x.clone())
    }
}

pub static BACKWARDS: AtomicUsize = AtomicUsize::new(0);

impl SinCos {
    fn forward_saving<B: Backend>(
        &self,
        x: In<Self, B>,
    ) -> Result<(Out<Self, B>, Saved<Self, B>), DispatchError> {
        let outputs = self.composite::<B>(x);
        Ok((outputs.clone(), outputs))
    }
    fn backward<B: Backend>(
        &self,
        (sin, cos): Saved<Self, B>,
        grads: Out<Self, Grads<B>>,
        _: &In<Self, Needs>,
    ) -> Result<In<Self, Grads<B>>, DispatchError> {
        BACKWARDS.fetch_add(1, Ordering::Relaxed);
        let through_sin = grads.0.map(|grad| B::float_mul(grad, cos));
        let through_cos = grads.1.map(|grad| B::float_neg(B::float_mul(grad, sin)));
        Ok(match (through_sin, through_cos) {
            (Some(a), Some(b)) => Some(B::float_add(a, b)),
            (one, None) | (None, one) => one,
        })
    }
}

arms! {
    impl SinCos {
        forward { _ => composite }
        gradient { B @ _ => (SinCos::forward_saving::<B>, SinCos::backward::<B>) }
    }
}

/// `Σ (i + 1)·xᵢ` over any number of inputs.
#[derive(Clone, Debug)]
pub struct WeightedSum;

impl Op for WeightedSum {
    const NAME: &'static str = "weighted_sum";
    type Inputs = Vec<Float>;
    type Output = Float;
    fn infer(&self, inputs: &Vec<TensorSpec>) -> Result<TensorSpec, InvalidInput> {
        let first = &inputs[0];
        for spec in inputs {
            if spec != first {
                let expected = format_args!("all of shape {:?}", &first.shape[..]);
                let found = format_args!("one of shape {:?}", &spec.shape[..]);
                return Err(InvalidInput::new("inputs", expected, found));
            }
        }
        Ok(first.clone())
    }
}

impl Composite for WeightedSum {
    fn composite<B: Backend>(
        &self,
        inputs: Vec<B::FloatTensorPrimitive>,
    ) -> B::FloatTensorPrimitive {
        let weighted = inputs
            .into_iter()
            .enumerate()
            .map(|(i, x)| B::float_mul_scalar(x, (i as f64 + 1.0).into()));
        weighted.reduce(B::float_add).expect("routing saw a tensor")
    }
}

impl Differentiable for WeightedSum {
    type Saved = ();
    fn infer_saved(&self, _: &Vec<TensorSpec>) {}
}

arms! {
    impl WeightedSum {
        forward { _ => composite }
        gradient { B @ _ => (WeightedSum::forward_saving::<B>, WeightedSum::backward::<B>) }
    }
}

impl WeightedSum {
    fn forward_saving<B: Backend>(
        &self,
        inputs: Vec<B::FloatTensorPrimitive>,
    ) -> Result<(B::FloatTensorPrimitive, ()), DispatchError> {
        Ok((self.composite::<B>(inputs), ()))
    }
    fn backward<B: Backend>(
        &self,
        (): (),
        grad: Option<B::FloatTensorPrimitive>,
        needs: &Vec<bool>,
    ) -> Result<Vec<Option<B::FloatTensorPrimitive>>, DispatchError> {
        let grad = grad.expect("the only output");
        let grads = needs.iter().enumerate().map(|(i, needed)| {
            needed.then(|| B::float_mul_scalar(grad.clone(), (i as f64 + 1.0).into()))
        });
        Ok(grads.collect())
    }
}

/// Runs on Flex alone and has no gradient, and says so.
#[derive(Clone, Debug)]
pub struct FlexOnly;

impl Op for FlexOnly {
    const NAME: &'static str = "flex_only";
    const INPUTS: &'static [&'static str] = &["x"];
    type Inputs = Float;
    type Output = Float;
    fn infer(&self, x: &TensorSpec) -> Result<TensorSpec, InvalidInput> {
        match x.dtype {
            DType::F32 => Ok(x.clone()),
            other => Err(InvalidInput::new("x", "F32", format_args!("{other:?}"))),
        }
    }
}

arms! {
    impl FlexOnly {
        forward {
            B @ Flex => |_, x| Ok(twice::<B>(x)),
            _ => unsupported("it is a test of Flex"),
        }
        gradient { _ => unsupported("nobody has worked it out") }
    }
}

fn twice<B: Backend>(x: B::FloatTensorPrimitive) -> B::FloatTensorPrimitive {
    B::float_mul_scalar(x, 2.0.into())
}

/// Keeps every `N`th element of a vector; written on `Tensor`s, generic in a constant, without a
/// gradient block.
#[derive(Clone, Debug)]
pub struct EveryNth<const N: usize>;

impl<const N: usize> Op for EveryNth<N> {
    const NAME: &'static str = "every_nth";
    const INPUTS: &'static [&'static str] = &["x"];
    type Inputs = Float;
    type Output = Float;
    fn infer(&self, x: &TensorSpec) -> Result<TensorSpec, InvalidInput> {
        match x.shape[..] {
            [length] => Ok(TensorSpec::new([length.div_ceil(N)], x.dtype)),
            _ => Err(InvalidInput::new(
                "x",
                "of rank 1",
                format_args!("of rank {}", x.shape.num_dims()),
            )),
        }
    }
}

arms! {
    impl<const N: usize> EveryNth<N> {
        forward {
            _ => composite(|_, x| {
                let step = Slice::with_step(0, None, N as isize);
                Tensor::<1>::from_dispatch(x).slice([step]).into_dispatch()
            }),
        }
    }
}
