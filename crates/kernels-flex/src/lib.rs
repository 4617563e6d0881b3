//! Fused kernels on the tensors of Burn's Flex backend.
//!
//! Plain functions on [`FlexTensor`](burn_flex::FlexTensor): who calls them, and for which backend, is
//! no business of this crate. The loops are those of `armature-cpu`.

mod error;
pub mod rms_norm;
mod view;

pub use error::Error;
pub use rms_norm::{rms_norm, rms_norm_backward, rms_norm_saving};
