//! Fused kernels on the tensors of Burn's NdArray backend.
//!
//! Plain functions on [`NdArrayTensor`](burn_ndarray::NdArrayTensor): who calls them, and for which
//! backend, is no business of this crate. The loops are those of `armature-cpu`.

// burn-ndarray is deprecated upstream in favour of burn-flex; it is served as long as it exists.
#![allow(deprecated)]

mod error;
pub mod rms_norm;
mod view;

pub use error::Error;
pub use rms_norm::{rms_norm, rms_norm_backward, rms_norm_saving};
