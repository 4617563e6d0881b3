//! What an op's author writes: the op, its arms, its gradient.

use core::fmt::Debug;

use burn::backend::{Backend, BackendTypes, Dispatch};
use serde::Serialize;

use crate::error::{DispatchError, InvalidInput};
use crate::tree::{Grads, Needs, Specs, Tree};

/// The inputs of op `O` with the leaves of `F`: a backend's primitives, or [`Specs`].
pub type In<O, F> = <<O as Op>::Inputs as Tree>::Of<F>;
/// The outputs of op `O` with the leaves of `F`.
pub type Out<O, F> = <<O as Op>::Output as Tree>::Of<F>;
/// What op `O` keeps for its backward pass, with the leaves of `F`.
pub type Saved<O, F> = <<O as Differentiable>::Saved as Tree>::Of<F>;

/// A tensor operation, independent of any backend. Its attributes are the fields of the type.
pub trait Op: Clone + Debug + Send + Sync + 'static {
    /// The op's name, in snake case; it appears in errors, in tables and on the fusion stream.
    const NAME: &'static str;
    /// The names of the inputs, in the order of [`Inputs`](Self::Inputs), for error messages.
    const INPUTS: &'static [&'static str] = &[];
    /// How the inputs are put together.
    type Inputs: Tree;
    /// How the outputs are put together.
    type Output: Tree;

    /// Checks the inputs and says what the outputs will be.
    ///
    /// This is the one place where a bad shape, dtype or attribute is found: it runs before
    /// anything is launched, whatever the backend. Arms may rely on it.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the input, what it must be and what it is.
    fn infer(&self, inputs: &In<Self, Specs>) -> Result<Out<Self, Specs>, InvalidInput>;
}

/// What runs an op on one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArmKind {
    /// Written for that backend.
    Kernel,
    /// Built from Burn's own primitive ops.
    Composite,
    /// Not there, and said so.
    Unsupported {
        /// Why.
        reason: &'static str,
    },
}

impl ArmKind {
    /// Whether the arm computes anything.
    pub const fn runs(self) -> bool {
        !matches!(self, Self::Unsupported { .. })
    }
}

/// The forward arm of an op on backend `B`: `NdArray`, `Flex`, `CubeBackend`, `LibTorch`, `Remote`
/// or `Capture`.
///
/// [`arms!`](crate::arms) writes the implementations; writing one by hand is as good.
pub trait Arm<B: BackendTypes>: Op {
    /// The kind of this arm.
    const KIND: ArmKind = ArmKind::Kernel;

    /// Computes the outputs. The inputs have passed [`Op::infer`].
    ///
    /// # Errors
    ///
    /// [`DispatchError::DTypeUnsupported`], [`DispatchError::Execution`].
    fn forward(&self, inputs: In<Self, B>) -> Result<Out<Self, B>, DispatchError>;
}

/// An op that can be built from Burn's own primitive ops.
///
/// On [`Dispatch`] itself it serves every backend, known or not, with Burn's gradients and fusion.
/// An op whose composite is easier to write on `Tensor<D>` gives it to [`arms!`](crate::arms) as a
/// function instead: `_ => composite(function)`.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` lists a `composite` arm, but has no composite",
    label = "no composite",
    note = "write `impl Composite for {Self}`, in Burn's primitive ops, or give a function on routed tensors: `_ => composite(function)`"
)]
pub trait Composite: Op {
    /// Computes the outputs from Burn's primitive ops. The inputs have passed [`Op::infer`].
    fn composite<B: Backend>(&self, inputs: In<Self, B>) -> Out<Self, B>;
}

/// What an op does on a backend for which it has no arm of its own.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` does not say what runs on a backend that it does not list",
    label = "no `Rest`",
    note = "declare its arms with `arms!`, or write `impl Rest for {Self}`"
)]
pub trait Rest: Op {
    /// The kind of the rest arm; `None` where every backend is listed.
    const KIND: Option<ArmKind>;

    /// Runs the op's composite on routed tensors as they are, whatever their backend. It serves
    /// the rest arm and every arm of the kind [`ArmKind::Composite`].
    ///
    /// # Errors
    ///
    /// [`DispatchError::FeatureDrift`] where the op has no composite.
    fn composite_on_dispatch(
        &self,
        inputs: In<Self, Dispatch>,
    ) -> Result<Out<Self, Dispatch>, DispatchError>;
}

/// An op with a gradient of its own: what the forward pass keeps for the backward pass.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` lists a gradient arm, but does not say what its backward pass needs",
    label = "not differentiable",
    note = "write `impl Differentiable for {Self}`"
)]
pub trait Differentiable: Op {
    /// How the saved tensors are put together; `()` for none.
    type Saved: Tree;

    /// The shapes and dtypes of what is saved, for inputs that have passed [`Op::infer`].
    fn infer_saved(&self, inputs: &In<Self, Specs>) -> Saved<Self, Specs>;
}

/// The gradient arm of an op on backend `B`.
///
/// [`arms!`](crate::arms) writes the implementations; writing one by hand is as good.
pub trait GradientArm<B: BackendTypes>: Op {
    /// The kind of this arm. For [`ArmKind::Composite`] with [`Saved`](Self::Saved) `= ()`
    /// see [`THROUGH_COMPOSITE`](Self::THROUGH_COMPOSITE).
    const KIND: ArmKind;
    /// Whether Burn differentiates the op's composite, so that the functions below are not called.
    const THROUGH_COMPOSITE: bool = false;
    /// What the backward pass needs.
    type Saved: Tree;

    /// The shapes and dtypes of what is saved.
    fn infer_saved(&self, inputs: &In<Self, Specs>) -> <Self::Saved as Tree>::Of<Specs>;

    /// Computes the outputs, and what the backward pass needs.
    ///
    /// # Errors
    ///
    /// As [`Arm::forward`].
    fn forward_saving(
        &self,
        inputs: In<Self, B>,
    ) -> Result<(Out<Self, B>, <Self::Saved as Tree>::Of<B>), DispatchError>;

    /// Computes the gradients of the inputs that `needs` marks; others may be `None`.
    ///
    /// `grads` holds the gradient of each float output, `None` for one that nothing was
    /// differentiated with respect to.
    ///
    /// # Errors
    ///
    /// As [`Arm::forward`].
    fn backward(
        &self,
        saved: <Self::Saved as Tree>::Of<B>,
        grads: Out<Self, Grads<B>>,
        needs: &In<Self, Needs>,
    ) -> Result<In<Self, Grads<B>>, DispatchError>;
}
