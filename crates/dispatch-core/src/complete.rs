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

// For each backend, a trait that asks for the forward arm and one that asks for the gradient arm,
// where the build has the backend (and autodiff), and for nothing elsewhere. They are spelt out
// because the text of a diagnostic has to be one literal.

/// Defines a trait that every type has.
#[allow(unused_macros)] // Not in a build with every feature.
macro_rules! asks_nothing {
    ($name:ident) => {
        #[doc = "Asks for nothing: this build does not have the backend, or not autodiff."]
        pub trait $name {
            #[doc(hidden)]
            const KIND: Option<ArmKind> = None;
        }
        impl<O> $name for O {}
    };
}

/// Has an arm for `NdArray`, where the feature `ndarray` compiles it in.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no arm for the backend `NdArray`, which the feature `ndarray` of armature-core compiles in",
    label = "no arm for `NdArray`",
    note = "list it in the op's `arms!`, as `NdArray => kernel` or `NdArray => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`"
)]
#[cfg(feature = "ndarray")]
pub trait NdArrayForward: Arm<crate::backend::NdArray> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as Arm<crate::backend::NdArray>>::KIND);
}
#[cfg(feature = "ndarray")]
impl<O: Arm<crate::backend::NdArray>> NdArrayForward for O {}
#[cfg(not(feature = "ndarray"))]
asks_nothing!(NdArrayForward);

/// Has a gradient arm for `NdArray`, where the feature `ndarray` compiles it in together with autodiff.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no gradient arm for the backend `NdArray`, which the feature `ndarray` of armature-core compiles in, together with `autodiff`",
    label = "no gradient arm for `NdArray`",
    note = "add it to the `gradient` block of the op's `arms!`, as `NdArray => (forward_saving, backward)` or `NdArray => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`, which Burn differentiates"
)]
#[cfg(all(feature = "ndarray", feature = "autodiff"))]
pub trait NdArrayGradient: GradientArm<crate::backend::NdArray> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as GradientArm<crate::backend::NdArray>>::KIND);
}
#[cfg(all(feature = "ndarray", feature = "autodiff"))]
impl<O: GradientArm<crate::backend::NdArray>> NdArrayGradient for O {}
#[cfg(not(all(feature = "ndarray", feature = "autodiff")))]
asks_nothing!(NdArrayGradient);

/// Has an arm for `Flex`, where the feature `flex` compiles it in.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no arm for the backend `Flex`, which the feature `flex` of armature-core compiles in",
    label = "no arm for `Flex`",
    note = "list it in the op's `arms!`, as `Flex => kernel` or `Flex => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`"
)]
#[cfg(feature = "flex")]
pub trait FlexForward: Arm<crate::backend::Flex> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as Arm<crate::backend::Flex>>::KIND);
}
#[cfg(feature = "flex")]
impl<O: Arm<crate::backend::Flex>> FlexForward for O {}
#[cfg(not(feature = "flex"))]
asks_nothing!(FlexForward);

/// Has a gradient arm for `Flex`, where the feature `flex` compiles it in together with autodiff.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no gradient arm for the backend `Flex`, which the feature `flex` of armature-core compiles in, together with `autodiff`",
    label = "no gradient arm for `Flex`",
    note = "add it to the `gradient` block of the op's `arms!`, as `Flex => (forward_saving, backward)` or `Flex => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`, which Burn differentiates"
)]
#[cfg(all(feature = "flex", feature = "autodiff"))]
pub trait FlexGradient: GradientArm<crate::backend::Flex> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as GradientArm<crate::backend::Flex>>::KIND);
}
#[cfg(all(feature = "flex", feature = "autodiff"))]
impl<O: GradientArm<crate::backend::Flex>> FlexGradient for O {}
#[cfg(not(all(feature = "flex", feature = "autodiff")))]
asks_nothing!(FlexGradient);

/// Has an arm for `Cube`, where a CubeCL runtime's feature compiles it in.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no arm for the backend `Cube`, which a CubeCL runtime's feature of armature-core compiles in",
    label = "no arm for `Cube`",
    note = "list it in the op's `arms!`, as `Cube => kernel` or `Cube => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`"
)]
#[cfg(feature = "__cube")]
pub trait CubeForward: Arm<crate::backend::CubeBackend> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as Arm<crate::backend::CubeBackend>>::KIND);
}
#[cfg(feature = "__cube")]
impl<O: Arm<crate::backend::CubeBackend>> CubeForward for O {}
#[cfg(not(feature = "__cube"))]
asks_nothing!(CubeForward);

/// Has a gradient arm for `Cube`, where a CubeCL runtime's feature compiles it in together with autodiff.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no gradient arm for the backend `Cube`, which a CubeCL runtime's feature of armature-core compiles in, together with `autodiff`",
    label = "no gradient arm for `Cube`",
    note = "add it to the `gradient` block of the op's `arms!`, as `Cube => (forward_saving, backward)` or `Cube => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`, which Burn differentiates"
)]
#[cfg(all(feature = "__cube", feature = "autodiff"))]
pub trait CubeGradient: GradientArm<crate::backend::CubeBackend> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as GradientArm<crate::backend::CubeBackend>>::KIND);
}
#[cfg(all(feature = "__cube", feature = "autodiff"))]
impl<O: GradientArm<crate::backend::CubeBackend>> CubeGradient for O {}
#[cfg(not(all(feature = "__cube", feature = "autodiff")))]
asks_nothing!(CubeGradient);

/// Has an arm for `LibTorch`, where the feature `tch` compiles it in.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no arm for the backend `LibTorch`, which the feature `tch` of armature-core compiles in",
    label = "no arm for `LibTorch`",
    note = "list it in the op's `arms!`, as `LibTorch => kernel` or `LibTorch => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`"
)]
#[cfg(feature = "tch")]
pub trait LibTorchForward: Arm<crate::backend::LibTorch> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as Arm<crate::backend::LibTorch>>::KIND);
}
#[cfg(feature = "tch")]
impl<O: Arm<crate::backend::LibTorch>> LibTorchForward for O {}
#[cfg(not(feature = "tch"))]
asks_nothing!(LibTorchForward);

/// Has a gradient arm for `LibTorch`, where the feature `tch` compiles it in together with autodiff.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no gradient arm for the backend `LibTorch`, which the feature `tch` of armature-core compiles in, together with `autodiff`",
    label = "no gradient arm for `LibTorch`",
    note = "add it to the `gradient` block of the op's `arms!`, as `LibTorch => (forward_saving, backward)` or `LibTorch => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`, which Burn differentiates"
)]
#[cfg(all(feature = "tch", feature = "autodiff"))]
pub trait LibTorchGradient: GradientArm<crate::backend::LibTorch> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as GradientArm<crate::backend::LibTorch>>::KIND);
}
#[cfg(all(feature = "tch", feature = "autodiff"))]
impl<O: GradientArm<crate::backend::LibTorch>> LibTorchGradient for O {}
#[cfg(not(all(feature = "tch", feature = "autodiff")))]
asks_nothing!(LibTorchGradient);

/// Has an arm for `Remote`, where the feature `remote` compiles it in.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no arm for the backend `Remote`, which the feature `remote` of armature-core compiles in",
    label = "no arm for `Remote`",
    note = "list it in the op's `arms!`, as `Remote => kernel` or `Remote => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`"
)]
#[cfg(feature = "remote")]
pub trait RemoteForward: Arm<crate::backend::Remote> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as Arm<crate::backend::Remote>>::KIND);
}
#[cfg(feature = "remote")]
impl<O: Arm<crate::backend::Remote>> RemoteForward for O {}
#[cfg(not(feature = "remote"))]
asks_nothing!(RemoteForward);

/// Has a gradient arm for `Remote`, where the feature `remote` compiles it in together with autodiff.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no gradient arm for the backend `Remote`, which the feature `remote` of armature-core compiles in, together with `autodiff`",
    label = "no gradient arm for `Remote`",
    note = "add it to the `gradient` block of the op's `arms!`, as `Remote => (forward_saving, backward)` or `Remote => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`, which Burn differentiates"
)]
#[cfg(all(feature = "remote", feature = "autodiff"))]
pub trait RemoteGradient: GradientArm<crate::backend::Remote> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as GradientArm<crate::backend::Remote>>::KIND);
}
#[cfg(all(feature = "remote", feature = "autodiff"))]
impl<O: GradientArm<crate::backend::Remote>> RemoteGradient for O {}
#[cfg(not(all(feature = "remote", feature = "autodiff")))]
asks_nothing!(RemoteGradient);

/// Has an arm for `Capture`, where the feature `capture` compiles it in.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no arm for the backend `Capture`, which the feature `capture` of armature-core compiles in",
    label = "no arm for `Capture`",
    note = "list it in the op's `arms!`, as `Capture => kernel` or `Capture => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`"
)]
#[cfg(feature = "capture")]
pub trait CaptureForward: Arm<crate::backend::Capture> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as Arm<crate::backend::Capture>>::KIND);
}
#[cfg(feature = "capture")]
impl<O: Arm<crate::backend::Capture>> CaptureForward for O {}
#[cfg(not(feature = "capture"))]
asks_nothing!(CaptureForward);

/// Has a gradient arm for `Capture`, where the feature `capture` compiles it in together with autodiff.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` has no gradient arm for the backend `Capture`, which the feature `capture` of armature-core compiles in, together with `autodiff`",
    label = "no gradient arm for `Capture`",
    note = "add it to the `gradient` block of the op's `arms!`, as `Capture => (forward_saving, backward)` or `Capture => unsupported(\"reason\")`, or give the op the rest arm `_ => composite`, which Burn differentiates"
)]
#[cfg(all(feature = "capture", feature = "autodiff"))]
pub trait CaptureGradient: GradientArm<crate::backend::Capture> {
    #[doc(hidden)]
    const KIND: Option<ArmKind> = Some(<Self as GradientArm<crate::backend::Capture>>::KIND);
}
#[cfg(all(feature = "capture", feature = "autodiff"))]
impl<O: GradientArm<crate::backend::Capture>> CaptureGradient for O {}
#[cfg(not(all(feature = "capture", feature = "autodiff")))]
asks_nothing!(CaptureGradient);

/// The forward arms of every backend that the build compiles in.
pub trait CompleteForward:
    NdArrayForward + FlexForward + CubeForward + LibTorchForward + RemoteForward + CaptureForward
{
}
impl<O> CompleteForward for O where
    O: NdArrayForward
        + FlexForward
        + CubeForward
        + LibTorchForward
        + RemoteForward
        + CaptureForward
{
}

/// The gradient arms of every backend that the build compiles in, in a build with autodiff.
pub trait CompleteGradient:
    NdArrayGradient + FlexGradient + CubeGradient + LibTorchGradient + RemoteGradient + CaptureGradient
{
}
impl<O> CompleteGradient for O where
    O: NdArrayGradient
        + FlexGradient
        + CubeGradient
        + LibTorchGradient
        + RemoteGradient
        + CaptureGradient
{
}

/// An op with an arm for every backend that the build compiles in, and, with the feature
/// `autodiff`, with a gradient arm for each: what [`dispatch`](crate::dispatch) takes.
///
/// It is implemented for every op that qualifies, and cannot be implemented by hand.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` cannot be called: a backend that this build compiles in has no arm",
    label = "an arm is missing",
    note = "the help above names the arm; declare the op's arms with `arms!`, or write `impl Arm<…>` and `impl GradientArm<…>` for each backend and `impl Rest` for others"
)]
pub trait Complete: Rest + CompleteForward + CompleteGradient {}
impl<O: Rest + CompleteForward + CompleteGradient> Complete for O {}

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
    let (forward, gradient) = match backend {
        BackendTag::NdArray => (<O as NdArrayForward>::KIND, <O as NdArrayGradient>::KIND),
        BackendTag::Flex => (<O as FlexForward>::KIND, <O as FlexGradient>::KIND),
        BackendTag::Cube(_) => (<O as CubeForward>::KIND, <O as CubeGradient>::KIND),
        BackendTag::LibTorch => (<O as LibTorchForward>::KIND, <O as LibTorchGradient>::KIND),
        BackendTag::Remote => (<O as RemoteForward>::KIND, <O as RemoteGradient>::KIND),
        BackendTag::Capture => (<O as CaptureForward>::KIND, <O as CaptureGradient>::KIND),
    };
    let Some(forward) = forward else {
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
/// is declared, so that a gap is reported there and not at the first call; each bound by itself, so
/// that each gap is reported in its own words.
#[doc(hidden)]
pub const fn assert_complete<O>()
where
    O: Rest
        + NdArrayForward
        + FlexForward
        + CubeForward
        + LibTorchForward
        + RemoteForward
        + CaptureForward
        + NdArrayGradient
        + FlexGradient
        + CubeGradient
        + LibTorchGradient
        + RemoteGradient
        + CaptureGradient,
{
}
