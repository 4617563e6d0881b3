//! Running an arm on the backend that a routed tensor holds.
//!
//! Arms are written for plain backends. A routed tensor holds the same backend, or, for CubeCL
//! with fusion, `Fusion` of it: there the arm is registered on the fusion stream instead.

#![allow(deprecated)] // NdArray and LibTorch are deprecated in Burn, and still served here.

use burn::backend::Backend;

use crate::error::DispatchError;
use crate::op::{Arm, GradientArm, In, Op, Out};
use crate::tree::{Floats, Grads, GradsOf, Needs, Nothing, Specs, TensorSpec, Tree};

/// A backend on which arms can run.
pub(crate) trait Runs: Backend {
    /// The backend that arms are written for.
    type Native: Backend;

    /// Runs one task: here and now, or lazily with outputs of the given specs.
    fn run<T: Task<Self::Native>>(
        task: T,
        inputs: <T::Inputs as Tree>::Of<Self>,
    ) -> Result<<T::Output as Tree>::Of<Self>, DispatchError>;
}

/// Something to compute on backend `B`: an op's forward pass, its forward pass that saves, or its
/// backward pass.
// Specs and names are for the fusion stream.
#[cfg_attr(not(feature = "__cube"), allow(dead_code))]
pub(crate) trait Task<B: Backend>: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// What it takes.
    type Inputs: Tree;
    /// What it gives.
    type Output: Tree;
    /// The op's name.
    const OP: &'static str;
    /// What is put behind the op's name on the fusion stream.
    const SUFFIX: &'static str;

    /// The specs of the outputs.
    fn specs(
        &self,
        inputs: &<Self::Inputs as Tree>::Of<Specs>,
    ) -> Result<<Self::Output as Tree>::Of<Specs>, DispatchError>;

    /// Computes the outputs.
    fn run(
        &self,
        inputs: <Self::Inputs as Tree>::Of<B>,
    ) -> Result<<Self::Output as Tree>::Of<B>, DispatchError>;
}

/// The forward pass of op `O`.
#[derive(Clone, Debug)]
pub(crate) struct Forward<O>(pub(crate) O);

impl<B: Backend, O: Arm<B>> Task<B> for Forward<O> {
    type Inputs = O::Inputs;
    type Output = O::Output;
    const OP: &'static str = O::NAME;
    const SUFFIX: &'static str = "";

    fn specs(&self, inputs: &In<O, Specs>) -> Result<Out<O, Specs>, DispatchError> {
        self.0.infer(inputs).map_err(|invalid| invalid.of(O::NAME))
    }

    #[inline(always)]
    fn run(&self, inputs: In<O, B>) -> Result<Out<O, B>, DispatchError> {
        self.0.forward(inputs)
    }
}

/// The forward pass of op `O` that keeps what the backward pass needs.
#[derive(Clone, Debug)]
pub(crate) struct ForwardSaving<O>(pub(crate) O);

impl<B: Backend, O: GradientArm<B>> Task<B> for ForwardSaving<O> {
    type Inputs = O::Inputs;
    type Output = (O::Output, O::Saved);
    const OP: &'static str = O::NAME;
    const SUFFIX: &'static str = ".forward_saving";

    fn specs(
        &self,
        inputs: &In<O, Specs>,
    ) -> Result<<Self::Output as Tree>::Of<Specs>, DispatchError> {
        let output = self
            .0
            .infer(inputs)
            .map_err(|invalid| invalid.of(O::NAME))?;
        Ok((output, self.0.infer_saved(inputs)))
    }

    fn run(&self, inputs: In<O, B>) -> Result<<Self::Output as Tree>::Of<B>, DispatchError> {
        self.0.forward_saving(inputs)
    }
}

/// The backward pass of op `O`.
#[derive(Clone, Debug)]
pub(crate) struct Backward<O: Op> {
    /// The op.
    pub(crate) op: O,
    /// Which gradients are wanted.
    pub(crate) needs: In<O, Needs>,
    /// The specs of the op's inputs, which are those of their gradients.
    #[cfg_attr(not(feature = "__cube"), allow(dead_code))]
    pub(crate) inputs: In<O, Specs>,
}

impl<B: Backend, O: GradientArm<B>> Task<B> for Backward<O> {
    type Inputs = (O::Saved, GradsOf<O::Output>);
    type Output = GradsOf<O::Inputs>;
    const OP: &'static str = O::NAME;
    const SUFFIX: &'static str = ".backward";

    fn specs(
        &self,
        _: &<Self::Inputs as Tree>::Of<Specs>,
    ) -> Result<In<O, Grads<Specs>>, DispatchError> {
        let wanted = flags::<O::Inputs>(&self.needs);
        let mut wanted = wanted.into_iter();
        let mut pick =
            Floats(|spec: &TensorSpec| Ok(wanted.next().unwrap_or(false).then(|| spec.clone())));
        O::Inputs::try_map_ref::<Specs, Grads<Specs>, _>(&self.inputs, &mut pick)
    }

    fn run(
        &self,
        (saved, grads): <Self::Inputs as Tree>::Of<B>,
    ) -> Result<In<O, Grads<B>>, DispatchError> {
        let found = self.op.backward(saved, grads, &self.needs)?;
        // The arm may give more than was asked for, but not less: the graph counts on it.
        let wanted = flags::<O::Inputs>(&self.needs);
        let mut wanted = wanted.into_iter();
        let mut position = 0;
        let mut keep = Floats(|grad: &Option<B::FloatTensorPrimitive>| {
            position += 1;
            match (wanted.next().unwrap_or(false), grad) {
                (false, _) => Ok(None),
                (true, Some(grad)) => Ok(Some(grad.clone())),
                (true, None) => Err(DispatchError::execution(
                    O::NAME,
                    format_args!(
                        "its gradient arm gave no gradient for float input #{}, which needs one",
                        position - 1
                    ),
                )),
            }
        });
        O::Inputs::try_map_ref::<Grads<B>, Grads<B>, _>(&found, &mut keep)
    }
}

/// The float leaves' flags, in order.
pub(crate) fn flags<T: Tree>(needs: &T::Of<Needs>) -> Vec<bool> {
    let mut flags = Vec::new();
    let mut push = Floats(|need: &bool| {
        flags.push(*need);
        Ok::<(), core::convert::Infallible>(())
    });
    let Ok(_) = T::try_map_ref::<Needs, Nothing, _>(needs, &mut push);
    flags
}

/// Runs a task here and now.
macro_rules! runs_now {
    ($(#[$cfg:meta])* $backend:ty) => {
        $(#[$cfg])*
        impl Runs for $backend {
            type Native = Self;
            #[inline(always)]
            fn run<T: Task<Self>>(
                task: T,
                inputs: <T::Inputs as Tree>::Of<Self>,
            ) -> Result<<T::Output as Tree>::Of<Self>, DispatchError> {
                task.run(inputs)
            }
        }
    };
}
runs_now!(
    #[cfg(feature = "ndarray")]
    crate::backend::NdArray
);
runs_now!(
    #[cfg(feature = "flex")]
    crate::backend::Flex
);
runs_now!(
    #[cfg(feature = "__cube")]
    crate::backend::CubeBackend
);
runs_now!(
    #[cfg(feature = "tch")]
    crate::backend::LibTorch
);
runs_now!(
    #[cfg(feature = "remote")]
    crate::backend::Remote
);
runs_now!(
    #[cfg(feature = "capture")]
    crate::backend::Capture
);
