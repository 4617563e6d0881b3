//! Fused CubeCL kernels, one source for every runtime of Burn's CubeCL backend.
//!
//! Plain functions on [`CubeTensor`](burn_cubecl::tensor::CubeTensor): who calls them, and for which
//! backend, is no business of this crate. `rows` holds what reductions over rows share (the launch
//! shape, strided rows, sums across units); each op's kernel is one more file.

mod error;
pub mod rms_norm;
mod rows;

pub use error::Error;
pub use rms_norm::{rms_norm, rms_norm_backward, rms_norm_saving, supports};

/// The ops by launch shapes other than the default, to be measured. Not for callers.
#[doc(hidden)]
pub mod tuning {
    pub use crate::rms_norm::{backward as rms_norm_backward, forward as rms_norm};
    pub use crate::rows::Tuning;
}
