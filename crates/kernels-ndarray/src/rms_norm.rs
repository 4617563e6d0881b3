//! RMSNorm: `y = x / sqrt(mean(x², last dimension) + epsilon) ⊙ weight`
//! (Zhang and Sennrich, 2019, arXiv 1910.07467).
//!
//! # Shapes
//!
//! - x, y, and their gradients: `[..., hidden size]`, of any rank from one up;
//! - weight and its gradient: `[hidden size]`;
//! - rstd, the reciprocal of each row's root mean square: `[..., 1]`.
//!
//! All are `f32`, or all are `f64`. Callers have checked the shapes; only debug builds check again. Any
//! strides will do, and any dimension may be zero. No input is written to that anyone else holds. An
//! empty row counts as a row of zeros.

use armature_cpu::{Element, rms_norm as kernel};
use burn_backend::TensorMetadata;
use burn_ndarray::{NdArrayTensor, SharedArray};
use ndarray::{ArrayView, IxDyn};

use crate::error::Error;
use crate::view::{array, rows};

type View<'a, E> = ArrayView<'a, E, IxDyn>;

/// RMSNorm of `x`, in its own memory where nobody else holds it.
///
/// # Errors
///
/// If a tensor is of a dtype without a kernel, or of another dtype than `x`.
pub fn rms_norm(
    x: NdArrayTensor,
    weight: Option<NdArrayTensor>,
    epsilon: f64,
) -> Result<NdArrayTensor, Error> {
    // Storages cannot be named outside burn-ndarray: each arm asks its own.
    match (x, &weight) {
        (NdArrayTensor::F32(x), None) if x.is_unique() => {
            Ok(forward_donated(x.into_shared(), None, epsilon))
        }
        (NdArrayTensor::F32(x), Some(NdArrayTensor::F32(weight))) if x.is_unique() => Ok(
            forward_donated(x.into_shared(), Some(weight.view()), epsilon),
        ),
        (NdArrayTensor::F64(x), None) if x.is_unique() => {
            Ok(forward_donated(x.into_shared(), None, epsilon))
        }
        (NdArrayTensor::F64(x), Some(NdArrayTensor::F64(weight))) if x.is_unique() => Ok(
            forward_donated(x.into_shared(), Some(weight.view()), epsilon),
        ),
        (x, _) => rms_norm_saving(x, weight, epsilon).map(|(y, _)| y),
    }
}

/// RMSNorm of `x`, and the `rstd` that [`rms_norm_backward`] asks for.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn rms_norm_saving(
    x: NdArrayTensor,
    weight: Option<NdArrayTensor>,
    epsilon: f64,
) -> Result<(NdArrayTensor, NdArrayTensor), Error> {
    match (&x, &weight) {
        (NdArrayTensor::F32(x), None) => Ok(forward(x.view(), None, epsilon)),
        (NdArrayTensor::F32(x), Some(NdArrayTensor::F32(weight))) => {
            Ok(forward(x.view(), Some(weight.view()), epsilon))
        }
        (NdArrayTensor::F64(x), None) => Ok(forward(x.view(), None, epsilon)),
        (NdArrayTensor::F64(x), Some(NdArrayTensor::F64(weight))) => {
            Ok(forward(x.view(), Some(weight.view()), epsilon))
        }
        _ => Err(refusal(&x, [("weight", weight.as_ref())])),
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
    x: NdArrayTensor,
    weight: Option<NdArrayTensor>,
    rstd: NdArrayTensor,
    grad: NdArrayTensor,
    needed: (bool, bool),
) -> Result<(Option<NdArrayTensor>, Option<NdArrayTensor>), Error> {
    use NdArrayTensor::{F32, F64};
    match (&x, &weight, &rstd, &grad) {
        (F32(x), None, F32(rstd), F32(grad)) => {
            Ok(backward(x.view(), None, rstd.view(), grad.view(), needed))
        }
        (F32(x), Some(F32(weight)), F32(rstd), F32(grad)) => Ok(backward(
            x.view(),
            Some(weight.view()),
            rstd.view(),
            grad.view(),
            needed,
        )),
        (F64(x), None, F64(rstd), F64(grad)) => {
            Ok(backward(x.view(), None, rstd.view(), grad.view(), needed))
        }
        (F64(x), Some(F64(weight)), F64(rstd), F64(grad)) => Ok(backward(
            x.view(),
            Some(weight.view()),
            rstd.view(),
            grad.view(),
            needed,
        )),
        _ => {
            let rest = [
                ("weight", weight.as_ref()),
                ("rstd", Some(&rstd)),
                ("grad", Some(&grad)),
            ];
            Err(refusal(&x, rest))
        }
    }
}

fn forward<E>(
    x: View<'_, E>,
    weight: Option<View<'_, E>>,
    epsilon: f64,
) -> (NdArrayTensor, NdArrayTensor)
where
    E: Element<Sum = E>,
    NdArrayTensor: From<SharedArray<E>>,
{
    let weight = weight.map(|weight| rows(&weight).to_vec());
    let (y, rstd) = kernel::forward(&rows(&x), weight.as_deref(), epsilon);
    let mut rstd_shape = x.shape().to_vec();
    if let Some(last) = rstd_shape.last_mut() {
        *last = 1;
    }
    (array(x.shape(), y).into(), array(&rstd_shape, rstd).into())
}

/// The forward pass on an array that nobody else holds: in place, if it is contiguous.
fn forward_donated<E>(
    mut x: SharedArray<E>,
    weight: Option<View<'_, E>>,
    epsilon: f64,
) -> NdArrayTensor
where
    E: Element<Sum = E>,
    NdArrayTensor: From<SharedArray<E>>,
{
    let len = x.shape().last().copied().unwrap_or(1);
    if !x.is_standard_layout() {
        return forward(x.view(), weight, epsilon).0;
    }
    let weight = weight.map(|weight| rows(&weight).to_vec());
    let elements = x.as_slice_mut().expect("an array in the standard layout");
    kernel::forward_in_place(elements, len, weight.as_deref(), epsilon);
    x.into()
}

fn backward<E>(
    x: View<'_, E>,
    weight: Option<View<'_, E>>,
    rstd: View<'_, E>,
    grad: View<'_, E>,
    needed: (bool, bool),
) -> (Option<NdArrayTensor>, Option<NdArrayTensor>)
where
    E: Element<Sum = E>,
    NdArrayTensor: From<SharedArray<E>>,
{
    debug_assert_eq!(x.shape(), grad.shape());
    let weight = weight.map(|weight| rows(&weight).to_vec());
    let (dx, dw) = kernel::backward(
        &rows(&x),
        weight.as_deref(),
        &rows(&rstd).to_vec(),
        &rows(&grad),
        needed,
    );
    (
        dx.map(|dx| array(x.shape(), dx).into()),
        dw.map(|dw| array(&x.shape()[x.ndim() - 1..], dw).into()),
    )
}

/// Why no kernel took these tensors.
fn refusal<const N: usize>(
    x: &NdArrayTensor,
    rest: [(&'static str, Option<&NdArrayTensor>); N],
) -> Error {
    let op = "rms_norm";
    let expected = x.dtype();
    let differs = rest
        .into_iter()
        .filter_map(|(input, tensor)| Some((input, tensor?.dtype())))
        .find(|(_, found)| *found != expected);
    match (x, differs) {
        (NdArrayTensor::F32(_) | NdArrayTensor::F64(_), Some((input, found))) => {
            Error::DTypeMismatch {
                op,
                input,
                expected,
                found,
            }
        }
        _ => Error::DTypeUnsupported {
            op,
            dtype: expected,
            supported: "F32 or F64",
        },
    }
}
