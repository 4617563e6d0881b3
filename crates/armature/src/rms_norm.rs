//! Root mean square layer normalisation.
//!
//! `y = x / sqrt(mean(x², last dim) + epsilon) ⊙ weight` (Zhang and Sennrich, 2019, "Root Mean
//! Square Layer Normalization", arXiv 1910.07467).

use armature_core::{
    Composite, Differentiable, DispatchError, Float, In, InvalidInput, Op, Out, Saved, Specs,
    TensorSpec, arms, dispatch,
};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{DType, Shape, Tensor};

use crate::error::KernelError;

/// RMSNorm: every row of the last dimension divided by its root mean square, times a weight.
///
/// Inputs: `x`, of shape `[…, hidden size]`, any rank from 1, dtype f64, f32, f16 or bf16; `weight`,
/// optional, of shape `[hidden size]` and x's dtype. Output: x's shape and dtype. Sums are in f32,
/// for f64 in f64.
///
/// With `r = 1/sqrt(mean(x²) + epsilon)`, `x̂ = x·r` and `g = dy ⊙ weight`, the gradients are
/// `dx = r·(g − x̂·mean(g ⊙ x̂))` and `dweight = Σ over rows dy ⊙ x̂`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square; finite and not negative.
    pub epsilon: f64,
}

impl Op for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const INPUTS: &'static [&'static str] = &["x", "weight"];
    type Inputs = (Float, Option<Float>);
    type Output = Float;

    fn infer(&self, (x, weight): &In<Self, Specs>) -> Result<TensorSpec, InvalidInput> {
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return Err(InvalidInput::new(
                "epsilon",
                "finite and not negative",
                self.epsilon,
            ));
        }
        if !matches!(x.dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
            let found = format_args!("{:?}", x.dtype);
            return Err(InvalidInput::new(
                "x",
                "of the dtype F64, F32, F16 or BF16",
                found,
            ));
        }
        let Some(&hidden_size) = x.shape.last() else {
            return Err(InvalidInput::new("x", "of rank 1 or more", "of rank 0"));
        };
        if let Some(weight) = weight {
            if weight.shape[..] != [hidden_size] {
                return Err(InvalidInput::new(
                    "weight",
                    format_args!("of shape [{hidden_size}], the last dimension of x"),
                    format_args!("of shape {:?}", &weight.shape[..]),
                ));
            }
            if weight.dtype != x.dtype {
                return Err(InvalidInput::new(
                    "weight",
                    format_args!("of x's dtype, {:?}", x.dtype),
                    format_args!("of the dtype {:?}", weight.dtype),
                ));
            }
        }
        Ok(x.clone())
    }
}

impl Differentiable for RmsNorm {
    /// x, the weight, and 1/rms of each row, of shape `[…, 1]`, in the dtype of the sums.
    type Saved = (Float, Option<Float>, Float);

    fn infer_saved(&self, (x, weight): &In<Self, Specs>) -> Saved<Self, Specs> {
        let mut shape = x.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = 1;
        }
        let rstd = TensorSpec {
            shape,
            dtype: sum_dtype(x.dtype),
        };
        (x.clone(), weight.clone(), rstd)
    }
}

arms! {
    impl RmsNorm {
        forward {
            #[cfg(feature = "ndarray")]
            NdArray => |op, (x, weight)| run(armature_ndarray::rms_norm(x, weight, op.epsilon)),
            #[cfg(feature = "flex")]
            Flex => |op, (x, weight)| run(armature_flex::rms_norm(x, weight, op.epsilon)),
            #[cfg(feature = "__cube")]
            Cube => |op, (x, weight)| run(armature_cubecl::rms_norm(x, weight, op.epsilon)),
            _ => composite,
        }
        gradient {
            #[cfg(feature = "ndarray")]
            NdArray => (
                |op, inputs| forward_saving(armature_ndarray::rms_norm_saving, op, inputs),
                |_, saved, grad, needs| backward(armature_ndarray::rms_norm_backward, saved, grad, needs),
            ),
            #[cfg(feature = "flex")]
            Flex => (
                |op, inputs| forward_saving(armature_flex::rms_norm_saving, op, inputs),
                |_, saved, grad, needs| backward(armature_flex::rms_norm_backward, saved, grad, needs),
            ),
            #[cfg(feature = "__cube")]
            Cube => (
                |op, inputs| forward_saving(armature_cubecl::rms_norm_saving, op, inputs),
                |_, saved, grad, needs| backward(armature_cubecl::rms_norm_backward, saved, grad, needs),
            ),
            _ => composite,
        }
    }
}

impl Composite for RmsNorm {
    fn composite<B: Backend>(&self, (x, weight): In<Self, B>) -> Out<Self, B> {
        let (shape, dtype) = (x.shape(), x.dtype());
        let last = shape.num_dims() - 1;
        let sum = sum_dtype(dtype).into();

        let x = B::float_cast(x, sum);
        let mean = B::float_mean_dim(B::float_mul(x.clone(), x.clone()), last);
        let rms = B::float_sqrt(B::float_add_scalar(mean, self.epsilon.into()));
        let mut y = B::float_mul(x, B::float_recip(rms));
        if let Some(weight) = weight {
            let mut row = vec![1; last];
            row.push(shape[last]);
            let weight = B::float_reshape(B::float_cast(weight, sum), Shape::from(row));
            y = B::float_mul(y, weight);
        }
        B::float_cast(y, dtype.into())
    }
}

/// The dtype of sums and of saved statistics.
fn sum_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

#[allow(dead_code)] // Not in a build without kernels.
fn run<T, E: KernelError>(result: Result<T, E>) -> Result<T, DispatchError> {
    result.map_err(|error| error.of(RmsNorm::NAME))
}

#[allow(dead_code)]
fn forward_saving<T: Clone, E: KernelError>(
    kernel: fn(T, Option<T>, f64) -> Result<(T, T), E>,
    op: &RmsNorm,
    (x, weight): (T, Option<T>),
) -> Result<(T, (T, Option<T>, T)), DispatchError> {
    let (y, rstd) = run(kernel(x.clone(), weight.clone(), op.epsilon))?;
    Ok((y, (x, weight, rstd)))
}

#[allow(dead_code)]
fn backward<T, E: KernelError>(
    kernel: fn(T, Option<T>, T, T, (bool, bool)) -> Result<(Option<T>, Option<T>), E>,
    (x, weight, rstd): (T, Option<T>, T),
    grad: Option<T>,
    (x_needs, weight_needs): &(bool, Option<bool>),
) -> Result<(Option<T>, Option<Option<T>>), DispatchError> {
    let has_weight = weight_needs.is_some();
    // The only output has a gradient whenever the backward pass gets here.
    let Some(grad) = grad else {
        return Ok((None, has_weight.then_some(None)));
    };
    let needs = (*x_needs, weight_needs.unwrap_or(false));
    let (dx, dweight) = run(kernel(x, weight, rstd, grad, needs))?;
    Ok((dx, has_weight.then_some(dweight)))
}

/// RMSNorm of `x` over its last dimension; see [`RmsNorm`].
///
/// # Shapes
///
/// - x: `[…, hidden size]`, of rank `D` ≥ 1
/// - weight: `[hidden size]`
/// - output: as x
///
/// # Panics
///
/// Where [`try_rms_norm`] returns an error, with its text.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex().autodiff();
/// let x = Tensor::<2>::from_floats([[3.0, 4.0], [1.0, 1.0]], &device).require_grad();
/// let y = burn_armature::rms_norm(x.clone(), None, 0.0);
/// let gradients = y.clone().sum().backward();
/// println!("{y} {}", x.grad(&gradients).unwrap());
/// ```
pub fn rms_norm<const D: usize>(
    x: Tensor<D>,
    weight: Option<Tensor<1>>,
    epsilon: f64,
) -> Tensor<D> {
    try_rms_norm(x, weight, epsilon).unwrap_or_else(|error| panic!("{error}"))
}

/// RMSNorm of `x` over its last dimension; see [`RmsNorm`] and [`rms_norm`].
///
/// # Errors
///
/// [`DispatchError::InvalidInput`] for a rank, shape, dtype or epsilon that does not fit,
/// [`DispatchError::BackendsMixed`] and [`DispatchError::DevicesMixed`] where x and weight are not
/// together, [`DispatchError::CheckpointingMixed`], and [`DispatchError::DTypeUnsupported`] where
/// the device has no kernel for the dtype.
pub fn try_rms_norm<const D: usize>(
    x: Tensor<D>,
    weight: Option<Tensor<1>>,
    epsilon: f64,
) -> Result<Tensor<D>, DispatchError> {
    let inputs = (x.into_dispatch(), weight.map(Tensor::into_dispatch));
    dispatch(RmsNorm { epsilon }, inputs).map(Tensor::from_dispatch)
}
