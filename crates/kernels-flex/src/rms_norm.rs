//! RMSNorm: `y = x / sqrt(mean(x², last dimension) + epsilon) ⊙ weight`
//! (Zhang and Sennrich, 2019, arXiv 1910.07467).
//!
//! # Shapes
//!
//! - x, y, and their gradients: `[..., hidden size]`, of any rank from one up;
//! - weight and its gradient: `[hidden size]`;
//! - rstd, the reciprocal of each row's root mean square: `[..., 1]`.
//!
//! All share one dtype of `f32`, `f64`, `f16` and `bf16`, except that rstd is `f32` beside the
//! half-precision ones, as all sums are. Callers have checked the shapes; only debug builds check again.
//! Any strides will do, and any dimension may be zero. No input is written to that anyone else holds. An
//! empty row counts as a row of zeros.

use armature_cpu::{Element, rms_norm as kernel};
use burn_backend::{DType, TensorMetadata, bf16, f16};
use burn_flex::FlexTensor;

use crate::error::Error;
use crate::view::{rows, tensor};

/// RMSNorm of `x`, in its own memory where nobody else holds it.
///
/// # Errors
///
/// If a tensor is of a dtype without a kernel, or of another dtype than `x`.
pub fn rms_norm(
    x: FlexTensor,
    weight: Option<FlexTensor>,
    epsilon: f64,
) -> Result<FlexTensor, Error> {
    if !x.is_unique() || !x.is_contiguous() {
        return rms_norm_saving(x, weight, epsilon).map(|(y, _)| y);
    }
    let dtype = x.dtype();
    check_dtypes(dtype, [("weight", weight.as_ref(), dtype)])?;
    match dtype {
        DType::F32 => Ok(forward_in_place::<f32>(x, weight.as_ref(), epsilon)),
        DType::F64 => Ok(forward_in_place::<f64>(x, weight.as_ref(), epsilon)),
        DType::F16 => Ok(forward_in_place::<f16>(x, weight.as_ref(), epsilon)),
        DType::BF16 => Ok(forward_in_place::<bf16>(x, weight.as_ref(), epsilon)),
        _ => Err(unsupported(dtype)),
    }
}

/// RMSNorm of `x`, and the `rstd` that [`rms_norm_backward`] asks for.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn rms_norm_saving(
    x: FlexTensor,
    weight: Option<FlexTensor>,
    epsilon: f64,
) -> Result<(FlexTensor, FlexTensor), Error> {
    let dtype = x.dtype();
    check_dtypes(dtype, [("weight", weight.as_ref(), dtype)])?;
    match dtype {
        DType::F32 => Ok(forward::<f32>(&x, weight.as_ref(), epsilon)),
        DType::F64 => Ok(forward::<f64>(&x, weight.as_ref(), epsilon)),
        DType::F16 => Ok(forward::<f16>(&x, weight.as_ref(), epsilon)),
        DType::BF16 => Ok(forward::<bf16>(&x, weight.as_ref(), epsilon)),
        _ => Err(unsupported(dtype)),
    }
}

/// The gradients of [`rms_norm`] for x and weight, each only if `needed`.
///
/// With `g = grad ⊙ weight` and `x̂ = x·rstd`: `dx = rstd·(g − x̂·mean(g⊙x̂))`, and `dw = Σ grad⊙x̂` over
/// the rows, with the same bits for any number of threads.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn rms_norm_backward(
    x: FlexTensor,
    weight: Option<FlexTensor>,
    rstd: FlexTensor,
    grad: FlexTensor,
    needed: (bool, bool),
) -> Result<(Option<FlexTensor>, Option<FlexTensor>), Error> {
    let dtype = x.dtype();
    let sum = if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    check_dtypes(
        dtype,
        [
            ("weight", weight.as_ref(), dtype),
            ("rstd", Some(&rstd), sum),
            ("grad", Some(&grad), dtype),
        ],
    )?;
    match dtype {
        DType::F32 => Ok(backward::<f32>(&x, weight.as_ref(), &rstd, &grad, needed)),
        DType::F64 => Ok(backward::<f64>(&x, weight.as_ref(), &rstd, &grad, needed)),
        DType::F16 => Ok(backward::<f16>(&x, weight.as_ref(), &rstd, &grad, needed)),
        DType::BF16 => Ok(backward::<bf16>(&x, weight.as_ref(), &rstd, &grad, needed)),
        _ => Err(unsupported(dtype)),
    }
}

/// What a loop's element type is to Flex.
trait FlexElement:
    Element<Sum: burn_backend::Element + bytemuck::Pod> + burn_backend::Element + bytemuck::Pod
{
}

impl<E> FlexElement for E where
    E: Element<Sum: burn_backend::Element + bytemuck::Pod> + burn_backend::Element + bytemuck::Pod
{
}

fn forward<E: FlexElement>(
    x: &FlexTensor,
    weight: Option<&FlexTensor>,
    epsilon: f64,
) -> (FlexTensor, FlexTensor) {
    let weight = weight.map(|weight| rows::<E>(weight).to_vec());
    let (y, rstd) = kernel::forward(&rows::<E>(x), weight.as_deref(), epsilon);
    let shape = x.shape();
    let mut rstd_shape = shape.clone();
    let last = shape.num_dims() - 1;
    rstd_shape[last] = 1;
    (tensor(shape, y), tensor(rstd_shape, rstd))
}

fn forward_in_place<E: FlexElement>(
    mut x: FlexTensor,
    weight: Option<&FlexTensor>,
    epsilon: f64,
) -> FlexTensor {
    let (start, end) = x
        .layout()
        .contiguous_offsets()
        .expect("a contiguous tensor");
    let len = x.shape()[x.rank() - 1];
    let weight = weight.map(|weight| rows::<E>(weight).to_vec());
    let x_rows = &mut x.storage_mut::<E>()[start..end];
    kernel::forward_in_place(x_rows, len, weight.as_deref(), epsilon);
    x
}

fn backward<E: FlexElement>(
    x: &FlexTensor,
    weight: Option<&FlexTensor>,
    rstd: &FlexTensor,
    grad: &FlexTensor,
    needed: (bool, bool),
) -> (Option<FlexTensor>, Option<FlexTensor>) {
    debug_assert_eq!(x.shape(), grad.shape());
    let weight = weight.map(|weight| rows::<E>(weight).to_vec());
    let (dx, dw) = kernel::backward(
        &rows::<E>(x),
        weight.as_deref(),
        &rows::<E::Sum>(rstd).to_vec(),
        &rows::<E>(grad),
        needed,
    );
    let shape = x.shape();
    let hidden = shape[shape.num_dims() - 1];
    (
        dx.map(|dx| tensor(shape, dx)),
        dw.map(|dw| tensor([hidden].into(), dw)),
    )
}

fn check_dtypes<const N: usize>(
    x: DType,
    rest: [(&'static str, Option<&FlexTensor>, DType); N],
) -> Result<(), Error> {
    if !matches!(x, DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
        return Err(unsupported(x));
    }
    for (input, tensor, expected) in rest {
        if let Some(found) = tensor.map(FlexTensor::dtype)
            && found != expected
        {
            return Err(Error::DTypeMismatch {
                op: "rms_norm",
                input,
                expected,
                found,
            });
        }
    }
    Ok(())
}

fn unsupported(dtype: DType) -> Error {
    Error::DTypeUnsupported {
        op: "rms_norm",
        dtype,
        supported: "F32, F64, F16 or BF16",
    }
}
