//! Custom tensor ops for [Burn](burn) that cannot lose a backend.
//!
//! An op's author writes the op ([`Op`]: its attributes, its inputs and outputs, how output shapes
//! follow from input shapes), declares with [`arms!`] what runs it on each backend, and calls it
//! through [`dispatch`]. A backend that the build compiles in and the op does not serve is a
//! compile error at the declaration.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "autodiff")]
mod autodiff;
pub mod backend;
mod complete;
pub mod drift;
mod error;
#[cfg(feature = "__cube")]
mod fusion;
mod op;
mod route;
mod runs;
mod tag;
pub mod tree;
mod when;

pub use backend::tag_of;
pub use complete::{
    CaptureForward, CaptureGradient, Complete, CompleteForward, CompleteGradient, Coverage,
    CubeForward, CubeGradient, FlexForward, FlexGradient, Fused, LibTorchForward, LibTorchGradient,
    NdArrayForward, NdArrayGradient, RemoteForward, RemoteGradient, coverage, supported_backends,
};
pub use error::{DispatchError, InputName, InvalidInput};
pub use op::{Arm, ArmKind, Composite, Differentiable, GradientArm, In, Op, Out, Rest, Saved};
pub use route::dispatch;
pub use tag::{BackendTag, CubeRuntime, UnknownBackend};
pub use tree::{Bool, Float, Int, Quantized, Specs, TensorSpec, Tree};

/// What `arms!` expands to refers to.
#[doc(hidden)]
pub mod __private {
    pub use armature_macros::arms;

    use crate::{DispatchError, Op};

    pub use crate::complete::assert_complete;
    pub use crate::route::drift as no_composite;

    /// The error of an arm that is not there, for who calls it past the routing.
    pub fn declined<O: Op>(reason: &'static str) -> DispatchError {
        DispatchError::execution(O::NAME, reason)
    }

    /// The error of a composite that is written on routed tensors, likewise.
    pub fn only_routed<O: Op>() -> DispatchError {
        declined::<O>(
            "its composite is written on routed tensors, so it runs through `dispatch` alone",
        )
    }
}
