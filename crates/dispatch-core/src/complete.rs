//! Totality: an op that can be dispatched has an arm for every backend of the build.

#![allow(deprecated)]

use core::marker::PhantomData;

use serde::Serialize;

use crate::op::{Arm, ArmKind, GradientArm, Rest};
use crate::tag::BackendTag;

/// What an op has on one backend: a row of its coverage table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The op's name.
    pub op: &'static str,
    /// The backend.
    pub backend: BackendTag,
    /// The forward arm.
    pub forward: ArmKind,
    /// The gradient arm; `None` in a build without autodiff.
    pub gradient: Option<ArmKind>,
    /// How the op takes part in fusion; `None` where the backend does not fuse.
    pub fusion: Option<Fused>,
}

/// How an op takes part in kernel fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fused {
    /// One opaque, lazy operation on the fusion stream.
    Lazy,
    /// Its primitive operations are fused with those around them.
    Primitives,
}

/// The arms of an op on one backend, where the build has that backend.
type Kinds = Option<(ArmKind, Option<ArmKind>)>;

macro_rules! compiled_in {
    ($trait:ident, $feature:literal, $backend:ident, $doc:literal) => {
        #[doc = $doc]
        #[cfg(all(feature = $feature, not(feature = "autodiff")))]
        pub trait $trait: Arm<crate::backend::$backend> {
            #[doc(hidden)]
            const KINDS: Kinds = Some((<Self as Arm<crate::backend::$backend>>::KIND, None));
        }
        #[cfg(all(feature = $feature, not(feature = "autodiff")))]
        impl<O: Arm<crate::backend::$backend>> $trait for O {}

        #[doc = $doc]
        #[cfg(all(feature = $feature, feature = "autodiff"))]
        pub trait $trait:
            Arm<crate::backend::$backend> + GradientArm<crate::backend::$backend>
        {
            #[doc(hidden)]
            const KINDS: Kinds = Some((
                <Self as Arm<crate::backend::$backend>>::KIND,
                Some(<Self as GradientArm<crate::backend::$backend>>::KIND),
            ));
        }
        #[cfg(all(feature = $feature, feature = "autodiff"))]
        impl<O: Arm<crate::backend::$backend> + GradientArm<crate::backend::$backend>> $trait
            for O
        {
        }

        #[doc = $doc]
        #[cfg(not(feature = $feature))]
        pub trait $trait {
            #[doc(hidden)]
            const KINDS: Kinds = None;
        }
        #[cfg(not(feature = $feature))]
        impl<O> $trait for O {}
    };
}
compiled_in!(
    NdArrayArms,
    "ndarray",
    NdArray,
    "Has its arms on NdArray, where the feature `ndarray` is on."
);
compiled_in!(
    FlexArms,
    "flex",
    Flex,
    "Has its arms on Flex, where the feature `flex` is on."
);
compiled_in!(
    CubeArms,
    "__cube",
    CubeBackend,
    "Has its arms on CubeBackend, where a CubeCL runtime's feature is on."
);
compiled_in!(
    LibTorchArms,
    "tch",
    LibTorch,
    "Has its arms on LibTorch, where the feature `tch` is on."
);
compiled_in!(
    RemoteArms,
    "remote",
    Remote,
    "Has its arms on Remote, where the feature `remote` is on."
);
compiled_in!(
    CaptureArms,
    "capture",
    Capture,
    "Has its arms on Capture, where the feature `capture` is on."
);

/// An op with an arm for every backend that the build compiles in, and, with the feature
/// `autodiff`, with a gradient arm for each: what [`dispatch`](crate::dispatch) takes.
///
/// It is implemented for every op that qualifies, and cannot be implemented by hand.
pub trait Complete:
    Rest + NdArrayArms + FlexArms + CubeArms + LibTorchArms + RemoteArms + CaptureArms
{
}
impl<O> Complete for O where
    O: Rest + NdArrayArms + FlexArms + CubeArms + LibTorchArms + RemoteArms + CaptureArms
{
}

struct Table<O>(PhantomData<O>);

impl<O: Complete> Table<O> {
    const ROWS: [Option<Coverage>; BackendTag::ALL.len()] = {
        let mut rows = [None; BackendTag::ALL.len()];
        let mut i = 0;
        while i < rows.len() {
            rows[i] = row::<O>(BackendTag::ALL[i]);
            i += 1;
        }
        rows
    };
}

const fn row<O: Complete>(backend: BackendTag) -> Option<Coverage> {
    if !backend.is_compiled_in() {
        return None;
    }
    let kinds = match backend {
        BackendTag::NdArray => <O as NdArrayArms>::KINDS,
        BackendTag::Flex => <O as FlexArms>::KINDS,
        BackendTag::Cube(_) => <O as CubeArms>::KINDS,
        BackendTag::LibTorch => <O as LibTorchArms>::KINDS,
        BackendTag::Remote => <O as RemoteArms>::KINDS,
        BackendTag::Capture => <O as CaptureArms>::KINDS,
    };
    let Some((forward, gradient)) = kinds else {
        return None;
    };
    let fuses = cfg!(feature = "fusion") && matches!(backend, BackendTag::Cube(_));
    let fusion = match (fuses, forward) {
        (true, ArmKind::Kernel) => Some(Fused::Lazy),
        (true, ArmKind::Composite) => Some(Fused::Primitives),
        (true, ArmKind::Unsupported { .. }) | (false, _) => None,
    };
    Some(Coverage {
        op: O::NAME,
        backend,
        forward,
        gradient,
        fusion,
    })
}

/// The coverage of op `O` in this build: one row for each backend that armature-core's features
/// compile in.
pub const fn coverage<O: Complete>() -> &'static [Option<Coverage>; BackendTag::ALL.len()] {
    &Table::<O>::ROWS
}

/// The backends of this build on which op `O` runs.
pub fn supported_backends<O: Complete>() -> impl Iterator<Item = BackendTag> {
    coverage::<O>()
        .iter()
        .flatten()
        .filter(|row| row.forward.runs())
        .map(|row| row.backend)
}

/// Holds at compile time that `O` can be dispatched. [`arms!`](crate::arms) calls it where the op
/// is declared, so that a gap is reported there and not at the first call.
#[doc(hidden)]
pub const fn assert_complete<O: Complete>() {}
