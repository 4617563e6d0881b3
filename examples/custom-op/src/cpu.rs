//! The kernels for Burn's two CPU backends: one loop, and what each backend's tensors need.

#![allow(deprecated)] // NdArray is deprecated in Burn.

fn silu_mul(gate: f32, up: f32) -> f32 {
    gate / (1.0 + (-gate).exp()) * up
}

#[cfg(feature = "flex")]
pub(crate) fn flex(
    gate: burn_flex::FlexTensor,
    up: burn_flex::FlexTensor,
) -> burn_flex::FlexTensor {
    use burn::tensor::{Bytes, DType};
    use burn_flex::{FlexTensor, Layout};

    let (gate, up) = (gate.to_contiguous(), up.to_contiguous());
    let y = gate.storage::<f32>().iter().zip(up.storage::<f32>());
    let y: Vec<f32> = y.map(|(gate, up)| silu_mul(*gate, *up)).collect();
    let layout = Layout::contiguous(gate.layout().shape().clone());
    FlexTensor::new(Bytes::from_elems(y), layout, DType::F32)
}

#[cfg(feature = "ndarray")]
pub(crate) fn ndarray(
    gate: burn_ndarray::NdArrayTensor,
    up: burn_ndarray::NdArrayTensor,
) -> Result<burn_ndarray::NdArrayTensor, armature_core::DispatchError> {
    use burn_ndarray::NdArrayTensor::F32;

    match (gate, up) {
        (F32(gate), F32(up)) => {
            let mut y = gate.view().to_owned();
            y.zip_mut_with(&up.view(), |gate, up| *gate = silu_mul(*gate, *up));
            Ok(y.into_shared().into())
        }
        // `infer` lets nothing else through.
        _ => Err(armature_core::DispatchError::execution(
            "silu_mul",
            "the tensors are not F32",
        )),
    }
}
