//! Lifts gradient arms through `Autodiff`: records the backward step of an op, whatever the form
//! of its inputs and outputs.
//!
//! Burn's graph has one output per step and a fixed number of parents per step type. An op with one
//! float output and up to [`MOST_PARENTS`] float inputs is one step. Any other op is several steps
//! that share a [`Ledger`]:
//!
//! ```text
//! input 0 ..= 15 <-- gather \                 / emit <-- output 0
//! input 16 ..    <-- gather --- apply (once) ---- emit <-- output 1
//! ```
//!
//! Each `emit` puts its output's gradient down in the ledger, `apply` runs the op's backward pass
//! when all of them have, and each `gather` hands gradients on to its inputs. Between these steps
//! the graph carries a one-element token, which only orders them.

use core::convert::Infallible;
use core::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward as Step, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend, TensorMetadata};
use burn::tensor::Shape;

use crate::error::DispatchError;
use crate::op::{GradientArm, In, Op, Out};
use crate::runs::{Backward, ForwardSaving, Runs};
use crate::tree::{Floats, Grads, Needs, Nothing, Specs, SpecsOf, Tree, TryMap};

/// The most float inputs that one step takes.
const MOST_PARENTS: usize = 16;

/// A float tensor as the autodiff graph holds it. It is the same for every checkpointing strategy.
type Tracked<B> = FloatTensor<Autodiff<B>>;

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct State<O: Op, S, B: Backend> {
    backward: Backward<O>,
    saved: S,
    /// The form of the outputs.
    outputs: Out<O, Nothing>,
    /// Where gradients are exchanged, for an op of several steps.
    ledger: Option<Ledger<B>>,
    /// Whether the inputs' gradients go through the ledger too.
    gathered: bool,
}

/// Gradients on their way between the steps of one op.
#[derive(Clone, Debug)]
struct Ledger<B: Backend>(Arc<Mutex<Pages<B>>>);

#[derive(Debug)]
struct Pages<B: Backend> {
    outputs: Vec<Option<B::FloatTensorPrimitive>>,
    inputs: Vec<Option<B::FloatTensorPrimitive>>,
}

impl<B: Backend> Ledger<B> {
    fn new(outputs: usize) -> Self {
        let outputs = (0..outputs).map(|_| None).collect();
        Self(Arc::new(Mutex::new(Pages {
            outputs,
            inputs: Vec::new(),
        })))
    }

    /// A step that panicked leaves the pages whole: it only ever moves entries.
    fn pages<R>(&self, with: impl FnOnce(&mut Pages<B>) -> R) -> R {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs op `O` on inputs of which at least one is tracked, and records its backward step.
pub(crate) fn lift<O, B>(
    op: O,
    inputs: In<O, Autodiff<B>>,
) -> Result<Out<O, Autodiff<B>>, DispatchError>
where
    B: Runs,
    O: GradientArm<B::Native>,
{
    let Ok(specs) = O::Inputs::try_map_ref::<Autodiff<B>, Specs, _>(&inputs, &mut SpecsOf);
    let mut tracked = Floats(|tensor: &Tracked<B>| Ok::<_, Infallible>(tensor.is_tracked()));
    let Ok(needs) = O::Inputs::try_map_ref::<Autodiff<B>, Needs, _>(&inputs, &mut tracked);
    let mut split = Split {
        nodes: Vec::new(),
        backend: PhantomData,
    };
    let Ok(inputs) = O::Inputs::try_map::<Autodiff<B>, B, _>(inputs, &mut split);
    let nodes = split.nodes;

    let (output, saved) = B::run(ForwardSaving(op.clone()), inputs)?;

    let mut primitives = Vec::new();
    let mut list = Floats(|tensor: &B::FloatTensorPrimitive| {
        primitives.push(tensor.clone());
        Ok::<_, Infallible>(())
    });
    let Ok(outputs) = O::Output::try_map_ref::<B, Nothing, _>(&output, &mut list);

    let mut state = State {
        backward: Backward {
            op,
            needs,
            inputs: specs,
        },
        saved,
        outputs,
        ledger: None,
        gathered: false,
    };
    let tracked = match (primitives.len(), nodes.len()) {
        (0, _) => Vec::new(),
        (1, ..=MOST_PARENTS) => {
            let [output] = primitives.try_into().expect("counted");
            vec![record(Apply::<O, B>(PhantomData), state, nodes, output)]
        }
        (count, _) => {
            let ledger = Ledger::new(count);
            let token = token::<B>(&primitives[0]);
            state.ledger = Some(ledger.clone());
            state.gathered = nodes.len() > MOST_PARENTS;
            let nodes = gather(nodes, &ledger, &token);
            let joint = record(Apply::<O, B>(PhantomData), state, nodes, token);
            let emit = |(index, output)| {
                record(
                    Emit(PhantomData),
                    (ledger.clone(), index),
                    vec![joint.node()],
                    output,
                )
            };
            primitives.into_iter().enumerate().map(emit).collect()
        }
    };
    let mut join = Join::<B> {
        tracked: tracked.into_iter(),
    };
    let Ok(output) = O::Output::try_map::<B, Autodiff<B>, _>(output, &mut join);
    Ok(output)
}

/// Splits tracked tensors into primitives and graph nodes.
struct Split<B> {
    nodes: Vec<NodeGuard>,
    backend: PhantomData<B>,
}

impl<B: Backend> TryMap<Autodiff<B>, B> for Split<B> {
    type Error = Infallible;
    fn float(&mut self, tensor: Tracked<B>) -> Result<B::FloatTensorPrimitive, Infallible> {
        let (primitive, node) = tensor.into_parts();
        self.nodes.push(node);
        Ok(primitive)
    }
    fn int(&mut self, tensor: B::IntTensorPrimitive) -> Result<B::IntTensorPrimitive, Infallible> {
        Ok(tensor)
    }
    fn bool(
        &mut self,
        tensor: B::BoolTensorPrimitive,
    ) -> Result<B::BoolTensorPrimitive, Infallible> {
        Ok(tensor)
    }
    fn quantized(
        &mut self,
        tensor: B::QuantizedTensorPrimitive,
    ) -> Result<B::QuantizedTensorPrimitive, Infallible> {
        Ok(tensor)
    }
}

/// Puts the recorded outputs in the place of the primitives.
struct Join<B: Backend> {
    tracked: std::vec::IntoIter<Tracked<B>>,
}

impl<B: Backend> TryMap<B, Autodiff<B>> for Join<B> {
    type Error = Infallible;
    fn float(&mut self, tensor: B::FloatTensorPrimitive) -> Result<Tracked<B>, Infallible> {
        Ok(self.tracked.next().unwrap_or_else(|| constant::<B>(tensor)))
    }
    fn int(&mut self, tensor: B::IntTensorPrimitive) -> Result<B::IntTensorPrimitive, Infallible> {
        Ok(tensor)
    }
    fn bool(
        &mut self,
        tensor: B::BoolTensorPrimitive,
    ) -> Result<B::BoolTensorPrimitive, Infallible> {
        Ok(tensor)
    }
    fn quantized(
        &mut self,
        tensor: B::QuantizedTensorPrimitive,
    ) -> Result<B::QuantizedTensorPrimitive, Infallible> {
        Ok(tensor)
    }
}

/// A tensor that the graph does not track.
pub(crate) fn constant<B: Backend>(tensor: B::FloatTensorPrimitive) -> Tracked<B> {
    <Autodiff<B> as AutodiffBackend>::from_inner(tensor)
}

/// The one-element tensor that orders the steps of one op.
fn token<B: Backend>(like: &B::FloatTensorPrimitive) -> B::FloatTensorPrimitive {
    B::float_zeros(Shape::new([1]), &like.device(), like.dtype().into())
}

/// A step that can be recorded with any number of parents up to [`MOST_PARENTS`].
trait AnyStep<B: Backend, S>:
    Step<B, 1, State = S>
    + Step<B, 2, State = S>
    + Step<B, 4, State = S>
    + Step<B, 8, State = S>
    + Step<B, MOST_PARENTS, State = S>
{
}
impl<T, B: Backend, S> AnyStep<B, S> for T where
    T: Step<B, 1, State = S>
        + Step<B, 2, State = S>
        + Step<B, 4, State = S>
        + Step<B, 8, State = S>
        + Step<B, MOST_PARENTS, State = S>
{
}

/// Records `step` as what made `output` from `nodes`.
fn record<B: Backend, S, T: AnyStep<B, S>>(
    step: T,
    state: S,
    nodes: Vec<NodeGuard>,
    output: B::FloatTensorPrimitive,
) -> Tracked<B>
where
    S: Clone + Send + core::fmt::Debug + 'static,
{
    match nodes.len() {
        ..=1 => record_exactly::<B, S, T, 1>(step, state, nodes, output),
        2 => record_exactly::<B, S, T, 2>(step, state, nodes, output),
        3..=4 => record_exactly::<B, S, T, 4>(step, state, nodes, output),
        5..=8 => record_exactly::<B, S, T, 8>(step, state, nodes, output),
        _ => record_exactly::<B, S, T, MOST_PARENTS>(step, state, nodes, output),
    }
}

fn record_exactly<B: Backend, S, T: Step<B, N, State = S>, const N: usize>(
    step: T,
    state: S,
    mut nodes: Vec<NodeGuard>,
    output: B::FloatTensorPrimitive,
) -> Tracked<B>
where
    S: Clone + Send + core::fmt::Debug + 'static,
{
    // Parents that nothing tracks fill the places left over.
    nodes.resize_with(N, || constant::<B>(output.clone()).node());
    let nodes: [NodeGuard; N] = nodes.try_into().expect("resized to N");
    match step
        .prepare::<NoCheckpointing>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

/// Puts nodes behind as few `gather` steps as [`MOST_PARENTS`] allows.
fn gather<B: Backend>(
    mut nodes: Vec<NodeGuard>,
    ledger: &Ledger<B>,
    token: &B::FloatTensorPrimitive,
) -> Vec<NodeGuard> {
    let mut first = Some(0);
    while nodes.len() > MOST_PARENTS {
        let mut gathered = Vec::new();
        while !nodes.is_empty() {
            let rest = nodes.split_off(nodes.len().min(MOST_PARENTS));
            let chunk = core::mem::replace(&mut nodes, rest);
            let start = first.map(|_| gathered.len() * MOST_PARENTS);
            let state = (ledger.clone(), start);
            gathered.push(record(Gather(PhantomData), state, chunk, token.clone()).node());
        }
        nodes = gathered;
        first = None;
    }
    nodes
}

/// The op's backward pass.
struct Apply<O, B>(PhantomData<fn() -> (O, B)>);
/// Puts an output's gradient down in the ledger.
struct Emit<B>(PhantomData<fn() -> B>);
/// Hands gradients on from the ledger (or, between gathers, the token) to its parents.
struct Gather<B>(PhantomData<fn() -> B>);

impl<O: Op, B> core::fmt::Debug for Apply<O, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(O::NAME)
    }
}
impl<B> core::fmt::Debug for Emit<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Emit")
    }
}
impl<B> core::fmt::Debug for Gather<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Gather")
    }
}

impl<O, B, const N: usize> Step<B, N> for Apply<O, B>
where
    B: Runs,
    O: GradientArm<B::Native>,
{
    type State = State<O, <O::Saved as Tree>::Of<B>, B>;

    /// # Panics
    ///
    /// With the text of the [`DispatchError`], when the gradient arm fails: Burn's backward pass
    /// has no other way to report it.
    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let own = grads.consume::<B>(&ops.node);
        let State {
            backward,
            saved,
            outputs,
            ledger,
            gathered,
        } = ops.state;
        let given = match &ledger {
            None => vec![Some(own.clone())],
            Some(ledger) => ledger.pages(|pages| core::mem::take(&mut pages.outputs)),
        };
        let mut given = given.into_iter();
        let mut next = Floats(|(): &()| Ok::<_, Infallible>(given.next().flatten()));
        let Ok(given) = O::Output::try_map_ref::<Nothing, Grads<B>, _>(&outputs, &mut next);

        let found = B::run(backward, (saved, given)).unwrap_or_else(|error| panic!("{error}"));

        let mut inputs = Vec::new();
        let mut list = Floats(|grad: &Option<B::FloatTensorPrimitive>| {
            inputs.push(grad.clone());
            Ok::<_, Infallible>(())
        });
        let Ok(_) = O::Inputs::try_map_ref::<Grads<B>, Nothing, _>(&found, &mut list);
        drop(found);

        match ledger.filter(|_| gathered) {
            Some(ledger) => {
                ledger.pages(|pages| pages.inputs = inputs);
                for node in ops.parents.into_iter().flatten() {
                    grads.register::<B>(node.id, own.clone());
                }
            }
            None => {
                for (node, grad) in ops.parents.into_iter().zip(inputs) {
                    if let (Some(node), Some(grad)) = (node, grad) {
                        grads.register::<B>(node.id, grad);
                    }
                }
            }
        }
    }
}

impl<B: Backend, const N: usize> Step<B, N> for Emit<B> {
    type State = (Ledger<B>, usize);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let token = token::<B>(&grad);
        let (ledger, index) = ops.state;
        ledger.pages(|pages| pages.outputs[index] = Some(grad));
        for node in ops.parents.into_iter().flatten() {
            grads.register::<B>(node.id, token.clone());
        }
    }
}

impl<B: Backend, const N: usize> Step<B, N> for Gather<B> {
    /// The first of the op's inputs among the parents; `None` where they are gathers themselves.
    type State = (Ledger<B>, Option<usize>);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let token = grads.consume::<B>(&ops.node);
        let (ledger, start) = ops.state;
        for (offset, node) in ops.parents.into_iter().enumerate() {
            let Some(node) = node else { continue };
            let grad = match start {
                Some(start) => ledger.pages(|pages| pages.inputs[start + offset].take()),
                None => Some(token.clone()),
            };
            if let Some(grad) = grad {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}
