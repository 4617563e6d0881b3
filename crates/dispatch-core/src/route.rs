//! The way of one call: from routed tensors to the arm, and back.

#![allow(deprecated)] // NdArray and LibTorch are deprecated in Burn, and still served here.

use core::marker::PhantomData;

use burn::backend::{
    BackendTensor, Dispatch, DispatchAutodiffContext as Context, DispatchTensor, TensorMetadata,
};

use crate::backend::{Routable, Variant, tag_of};
use crate::complete::{Complete, supported_backends};
use crate::error::{DispatchError, InputName, InvalidInput};
use crate::op::{Arm, ArmKind, In, Out, Rest};
use crate::runs::Forward;
use crate::tag::BackendTag;
use crate::tree::{Family, Nothing, Specs, TensorSpec, Tree, TryMap, TryMapRef};

#[cfg(feature = "autodiff")]
use crate::op::GradientArm as Gradient;
/// Without autodiff nothing is asked of gradients.
#[cfg(not(feature = "autodiff"))]
trait Gradient<B> {}
#[cfg(not(feature = "autodiff"))]
impl<O, B> Gradient<B> for O {}

/// Runs op `op` on the backend that its inputs are on.
///
/// The first float tensor decides the backend, or, where there is none, the first tensor; all
/// inputs have to be there. Autodiff contexts merge as in Burn: an input without autodiff is a
/// constant, and two inputs with autodiff have to share a checkpointing strategy.
///
/// # Errors
///
/// Every [`DispatchError`]; those of the inputs before anything is launched.
pub fn dispatch<O: Complete>(
    op: O,
    inputs: In<O, Dispatch>,
) -> Result<Out<O, Dispatch>, DispatchError> {
    let mut scan = Scan::new::<O>();
    let specs = O::Inputs::try_map_ref::<Dispatch, Specs, _>(&inputs, &mut scan)?;
    let Some(variant) = scan.first_float.or(scan.first) else {
        return Err(DispatchError::NoTensorInput { op: O::NAME });
    };
    if scan.mixed {
        return Err(mixed::<O>(&inputs));
    }
    op.infer(&specs).map_err(|invalid| invalid.of(O::NAME))?;
    let call = Call {
        context: scan.context,
        floats: scan.first_float.is_some(),
    };
    match variant {
        #[cfg(feature = "ndarray")]
        Variant::NdArray => call.on::<O, crate::backend::NdArray>(op, inputs),
        #[cfg(feature = "flex")]
        Variant::Flex => call.on::<O, crate::backend::Flex>(op, inputs),
        #[cfg(feature = "__cube")]
        Variant::Cube => call.on::<O, crate::backend::Cube>(op, inputs),
        #[cfg(feature = "tch")]
        Variant::LibTorch => call.on::<O, crate::backend::LibTorch>(op, inputs),
        #[cfg(feature = "remote")]
        Variant::Remote => call.on::<O, crate::backend::Remote>(op, inputs),
        #[cfg(feature = "capture")]
        Variant::Capture => call.on::<O, crate::backend::Capture>(op, inputs),
        Variant::Unknown => on_unknown(op, inputs),
    }
}

/// On a backend that another crate switched on in burn alone, only a composite can run.
#[cold]
fn on_unknown<O: Complete>(
    op: O,
    inputs: In<O, Dispatch>,
) -> Result<Out<O, Dispatch>, DispatchError> {
    match <O as Rest>::KIND {
        Some(ArmKind::Composite) => op.composite_on_dispatch(inputs),
        _ => Err(drift::<O>(&inputs)),
    }
}

/// How a call is to be run, besides on which backend.
struct Call {
    context: Context,
    /// Whether the inputs hold a float tensor.
    floats: bool,
}

impl Call {
    #[inline(always)]
    fn on<O, B>(self, op: O, inputs: In<O, Dispatch>) -> Result<Out<O, Dispatch>, DispatchError>
    where
        B: Routable,
        O: Complete + Arm<B::Native> + Gradient<B::Native>,
    {
        match <O as Arm<B::Native>>::KIND {
            ArmKind::Unsupported { reason } => return Err(unsupported::<O>(&inputs, reason)),
            ArmKind::Composite if !self.is_tracked::<O, B>(&inputs) => {
                return op.composite_on_dispatch(inputs);
            }
            ArmKind::Composite | ArmKind::Kernel => {}
        }
        match self.context {
            Context::Disabled => {
                let inputs = O::Inputs::try_map(inputs, &mut Lower::<B>::new::<O>())?;
                let output = B::run(Forward(op), inputs)?;
                O::Output::try_map(output, &mut Raise::<B>::new(self.context))
            }
            Context::Enabled(_) => self.on_autodiff::<O, B>(op, inputs),
        }
    }

    /// Whether a gradient arm of the op's own has to record this call.
    #[cfg(not(feature = "autodiff"))]
    fn is_tracked<O: Complete, B: Routable>(&self, _: &In<O, Dispatch>) -> bool {
        false
    }

    /// Another crate switched autodiff on in burn alone.
    #[cfg(not(feature = "autodiff"))]
    #[cold]
    fn on_autodiff<O: Complete, B: Routable>(
        &self,
        op: O,
        inputs: In<O, Dispatch>,
    ) -> Result<Out<O, Dispatch>, DispatchError> {
        on_unknown(op, inputs)
    }

    /// Whether a gradient arm of the op's own has to record this call.
    #[cfg(feature = "autodiff")]
    fn is_tracked<O, B>(&self, inputs: &In<O, Dispatch>) -> bool
    where
        B: Routable,
        O: Complete + Gradient<B::Native>,
    {
        !<O as Gradient<B::Native>>::THROUGH_COMPOSITE
            && self.floats
            && self.context != Context::Disabled
            && any_tracked::<O, B>(inputs)
    }

    #[cfg(feature = "autodiff")]
    fn on_autodiff<O, B>(
        &self,
        op: O,
        inputs: In<O, Dispatch>,
    ) -> Result<Out<O, Dispatch>, DispatchError>
    where
        B: Routable,
        O: Complete + Arm<B::Native> + Gradient<B::Native>,
    {
        let raise = &mut Raise::<B>::new(self.context);
        if !(self.floats && any_tracked::<O, B>(&inputs)) {
            let mut lower = LowerUntracked::<B>(Lower::new::<O>());
            let inputs = O::Inputs::try_map(inputs, &mut lower)?;
            let output = B::run(Forward(op), inputs)?;
            return O::Output::try_map(output, raise);
        }
        if <O as Gradient<B::Native>>::THROUGH_COMPOSITE {
            return op.composite_on_dispatch(inputs);
        }
        if let ArmKind::Unsupported { reason } = <O as Gradient<B::Native>>::KIND {
            return Err(match tag::<O>(&inputs) {
                Some(backend) => DispatchError::GradientUnsupported {
                    op: O::NAME,
                    backend,
                    reason,
                },
                None => drift::<O>(&inputs),
            });
        }
        let inputs = O::Inputs::try_map(inputs, &mut LowerTracked::<B>(Lower::new::<O>()))?;
        let output = crate::autodiff::lift::<O, B>(op, inputs)?;
        O::Output::try_map::<crate::backend::Autodiff<B>, Dispatch, _>(output, raise)
    }
}

/// Follows which of an op's inputs is being walked.
struct Position {
    names: &'static [&'static str],
    depth: usize,
    index: usize,
}

impl Position {
    fn of<O: crate::Op>() -> Self {
        Self {
            names: O::INPUTS,
            depth: 0,
            index: 0,
        }
    }
    #[inline(always)]
    fn enter(&mut self, index: usize) {
        if self.depth == 0 {
            self.index = index;
        }
        self.depth += 1;
    }
    #[inline(always)]
    fn leave(&mut self) {
        self.depth -= 1;
    }
    fn name(&self) -> InputName {
        InputName::of(self.names, self.index)
    }
}

/// Reads specs, and on the way all that decides the route.
struct Scan {
    op: &'static str,
    position: Position,
    first: Option<Variant>,
    first_float: Option<Variant>,
    mixed: bool,
    context: Context,
}

impl Scan {
    fn new<O: crate::Op>() -> Self {
        Self {
            op: O::NAME,
            position: Position::of::<O>(),
            first: None,
            first_float: None,
            mixed: false,
            context: Context::Disabled,
        }
    }

    #[inline(always)]
    fn see(&mut self, tensor: &DispatchTensor) -> Result<(Variant, TensorSpec), DispatchError> {
        let variant = Variant::of(&tensor.kind);
        self.mixed |= variant != *self.first.get_or_insert(variant);
        match (self.context, tensor.autodiff) {
            (Context::Disabled, context) => self.context = context,
            (_, Context::Disabled) => {}
            (Context::Enabled(expected), Context::Enabled(found)) if expected != found => {
                return Err(DispatchError::CheckpointingMixed {
                    op: self.op,
                    input: self.position.name(),
                    expected: format!("{expected:?}"),
                    found: format!("{found:?}"),
                });
            }
            (Context::Enabled(_), Context::Enabled(_)) => {}
        }
        Ok((
            variant,
            TensorSpec {
                shape: tensor.shape(),
                dtype: tensor.dtype(),
            },
        ))
    }
}

impl TryMapRef<Dispatch, Specs> for Scan {
    type Error = DispatchError;
    #[inline(always)]
    fn float(&mut self, tensor: &DispatchTensor) -> Result<TensorSpec, DispatchError> {
        let (variant, spec) = self.see(tensor)?;
        self.first_float.get_or_insert(variant);
        Ok(spec)
    }
    #[inline(always)]
    fn int(&mut self, tensor: &DispatchTensor) -> Result<TensorSpec, DispatchError> {
        Ok(self.see(tensor)?.1)
    }
    #[inline(always)]
    fn bool(&mut self, tensor: &DispatchTensor) -> Result<TensorSpec, DispatchError> {
        Ok(self.see(tensor)?.1)
    }
    #[inline(always)]
    fn quantized(&mut self, tensor: &DispatchTensor) -> Result<TensorSpec, DispatchError> {
        Ok(self.see(tensor)?.1)
    }
    #[inline(always)]
    fn enter(&mut self, index: usize) {
        self.position.enter(index);
    }
    #[inline(always)]
    fn leave(&mut self) {
        self.position.leave();
    }
}

/// Visits every tensor of a call's inputs; off the fast path.
struct Look<'a, C> {
    position: Position,
    see: &'a mut C,
}

impl<C: FnMut(InputName, bool, &DispatchTensor)> Look<'_, C> {
    fn look(&mut self, float: bool, tensor: &DispatchTensor) -> Result<(), DispatchError> {
        (self.see)(self.position.name(), float, tensor);
        Ok(())
    }
}

impl<C: FnMut(InputName, bool, &DispatchTensor)> TryMapRef<Dispatch, Nothing> for Look<'_, C> {
    type Error = DispatchError;
    fn float(&mut self, tensor: &DispatchTensor) -> Result<(), DispatchError> {
        self.look(true, tensor)
    }
    fn int(&mut self, tensor: &DispatchTensor) -> Result<(), DispatchError> {
        self.look(false, tensor)
    }
    fn bool(&mut self, tensor: &DispatchTensor) -> Result<(), DispatchError> {
        self.look(false, tensor)
    }
    fn quantized(&mut self, tensor: &DispatchTensor) -> Result<(), DispatchError> {
        self.look(false, tensor)
    }
    fn enter(&mut self, index: usize) {
        self.position.enter(index);
    }
    fn leave(&mut self) {
        self.position.leave();
    }
}

/// Every tensor of the inputs, with its input's name and whether it is a float.
fn look<O: crate::Op>(
    inputs: &In<O, Dispatch>,
    mut see: impl FnMut(InputName, bool, &DispatchTensor),
) {
    let mut look = Look {
        position: Position::of::<O>(),
        see: &mut see,
    };
    // `Look` never fails.
    let _ = O::Inputs::try_map_ref::<Dispatch, Nothing, _>(inputs, &mut look);
}

/// The tag of the tensor that decides the route.
fn tag<O: crate::Op>(inputs: &In<O, Dispatch>) -> Option<BackendTag> {
    let (mut first, mut first_float) = (None, None);
    look::<O>(inputs, |_, float, tensor| {
        first.get_or_insert_with(|| tag_of(tensor));
        if float {
            first_float.get_or_insert_with(|| tag_of(tensor));
        }
    });
    first_float.or(first).flatten()
}

/// Names the input that is on another backend than the one that decides the route.
#[cold]
fn mixed<O: crate::Op>(inputs: &In<O, Dispatch>) -> DispatchError {
    let expected = tag::<O>(inputs);
    let mut stray = None;
    look::<O>(inputs, |input, _, tensor| {
        let found = tag_of(tensor);
        if found != expected && stray.is_none() {
            stray = Some((input, found));
        }
    });
    match (expected, stray) {
        (Some(expected), Some((input, Some(found)))) => DispatchError::BackendsMixed {
            op: O::NAME,
            input,
            expected,
            found,
        },
        _ => drift::<O>(inputs),
    }
}

#[cold]
fn unsupported<O: Complete>(inputs: &In<O, Dispatch>, reason: &'static str) -> DispatchError {
    match tag::<O>(inputs) {
        Some(backend) => DispatchError::Unsupported {
            op: O::NAME,
            backend,
            reason,
            supported: supported_backends::<O>().collect(),
        },
        None => drift::<O>(inputs),
    }
}

/// Names the tensor whose backend armature-core does not know.
#[cold]
pub fn drift<O: crate::Op>(inputs: &In<O, Dispatch>) -> DispatchError {
    let mut device = None;
    look::<O>(inputs, |_, _, tensor| {
        if tag_of(tensor).is_none() || tensor.autodiff != Context::Disabled {
            device.get_or_insert_with(|| format!("{:?}", tensor.device()));
        }
    });
    DispatchError::FeatureDrift {
        op: O::NAME,
        device: device.unwrap_or_default(),
    }
}

/// Takes the primitives of backend `B` out of routed tensors.
struct Lower<B: Routable> {
    op: &'static str,
    position: Position,
    device: Option<B::Device>,
}

impl<B: Routable> Lower<B> {
    fn new<O: crate::Op>() -> Self {
        Self {
            op: O::NAME,
            position: Position::of::<O>(),
            device: None,
        }
    }

    /// Holds the tensor's device against that of the tensors before it.
    #[inline(always)]
    fn here<T: TensorMetadata<Device = B::Device>>(
        &mut self,
        tensor: T,
    ) -> Result<T, DispatchError> {
        let device = tensor.device();
        match &self.device {
            None => self.device = Some(device),
            Some(expected) if *expected == device => {}
            Some(expected) => {
                return Err(DispatchError::DevicesMixed {
                    op: self.op,
                    input: self.position.name(),
                    expected: format!("{expected:?}"),
                    found: format!("{device:?}"),
                });
            }
        }
        Ok(tensor)
    }

    #[inline(always)]
    fn unwrap(&self, tensor: DispatchTensor) -> Result<BackendTensor<B>, DispatchError> {
        let kind = match tensor.kind {
            // The graph's box; whether it belongs here is the caller's to say.
            #[cfg(feature = "autodiff")]
            burn::backend::DispatchTensorKind::Autodiff(inner) => *inner,
            kind => kind,
        };
        // The scan saw that all inputs are of one backend.
        B::unwrap(kind).ok_or_else(|| {
            let input = self.position.name();
            InvalidInput::new(input, "on the backend of the first float", "elsewhere").of(self.op)
        })
    }

    #[cold]
    fn wrong_kind(&self, expected: &str, found: &BackendTensor<B>) -> DispatchError {
        let found = format!("a tensor of the kind {}", found.name());
        InvalidInput {
            input: self.position.name(),
            expected: expected.to_owned(),
            found,
        }
        .of(self.op)
    }
}

/// A lowering; they differ in what they take for a float.
macro_rules! lower {
    ($name:ident, $target:ty, |$this:ident| $lower:expr, |$lower_arg:ident, $tensor:ident| $float:expr) => {
        impl<B: Routable> TryMap<Dispatch, $target> for $name<B> {
            type Error = DispatchError;
            #[inline(always)]
            fn float(
                &mut self,
                tensor: DispatchTensor,
            ) -> Result<<$target as Family>::Float, DispatchError> {
                let $this = self;
                let $lower_arg = $lower;
                let $tensor = $lower_arg.unwrap(tensor)?;
                $float
            }
            #[inline(always)]
            fn int(
                &mut self,
                tensor: DispatchTensor,
            ) -> Result<B::IntTensorPrimitive, DispatchError> {
                let $this = self;
                let lower = $lower;
                match lower.unwrap(tensor)? {
                    BackendTensor::Int(tensor) => lower.here(tensor),
                    other => Err(lower.wrong_kind("an int tensor", &other)),
                }
            }
            #[inline(always)]
            fn bool(
                &mut self,
                tensor: DispatchTensor,
            ) -> Result<B::BoolTensorPrimitive, DispatchError> {
                let $this = self;
                let lower = $lower;
                match lower.unwrap(tensor)? {
                    BackendTensor::Bool(tensor) => lower.here(tensor),
                    other => Err(lower.wrong_kind("a bool tensor", &other)),
                }
            }
            #[inline(always)]
            fn quantized(
                &mut self,
                tensor: DispatchTensor,
            ) -> Result<B::QuantizedTensorPrimitive, DispatchError> {
                let $this = self;
                let lower = $lower;
                match lower.unwrap(tensor)? {
                    BackendTensor::Quantized(tensor) => lower.here(tensor),
                    other => Err(lower.wrong_kind("a quantized tensor", &other)),
                }
            }
            #[inline(always)]
            fn enter(&mut self, index: usize) {
                let $this = self;
                $lower.position.enter(index);
            }
            #[inline(always)]
            fn leave(&mut self) {
                let $this = self;
                $lower.position.leave();
            }
        }
    };
}

lower!(Lower, B, |this| this, |lower, tensor| match tensor {
    BackendTensor::Float(tensor) => lower.here(tensor),
    other => Err(lower.wrong_kind("a float tensor", &other)),
});

/// Takes primitives out of routed tensors of which none is tracked.
#[cfg(feature = "autodiff")]
struct LowerUntracked<B: Routable>(Lower<B>);
#[cfg(feature = "autodiff")]
lower!(
    LowerUntracked,
    B,
    |this| &mut this.0,
    |lower, tensor| match tensor {
        BackendTensor::Float(tensor) => lower.here(tensor),
        BackendTensor::Autodiff(tensor) => lower.here(tensor.into_primitive()),
        other => Err(lower.wrong_kind("a float tensor", &other)),
    }
);

/// Takes the graph's tensors out of routed tensors; a tensor without autodiff is a constant.
#[cfg(feature = "autodiff")]
struct LowerTracked<B: Routable>(Lower<B>);
#[cfg(feature = "autodiff")]
lower!(
    LowerTracked,
    crate::backend::Autodiff<B>,
    |this| &mut this.0,
    |lower, tensor| match tensor {
        BackendTensor::Float(tensor) => Ok(crate::autodiff::constant::<B>(lower.here(tensor)?)),
        BackendTensor::Autodiff(tensor) => lower.here(tensor),
        other => Err(lower.wrong_kind("a float tensor", &other)),
    }
);

/// Whether the graph tracks any float input.
#[cfg(feature = "autodiff")]
fn any_tracked<O: crate::Op, B: Routable>(inputs: &In<O, Dispatch>) -> bool {
    use burn::backend::DispatchTensorKind as Kind;
    struct Tracked<B>(bool, PhantomData<B>);
    impl<B: Routable> TryMapRef<Dispatch, Nothing> for Tracked<B> {
        type Error = core::convert::Infallible;
        #[inline(always)]
        fn float(&mut self, tensor: &DispatchTensor) -> Result<(), Self::Error> {
            if let Kind::Autodiff(inner) = &tensor.kind {
                self.0 |= match B::peek(inner) {
                    Some(BackendTensor::Autodiff(tensor)) => tensor.is_tracked(),
                    _ => false,
                };
            }
            Ok(())
        }
        fn int(&mut self, _: &DispatchTensor) -> Result<(), Self::Error> {
            Ok(())
        }
        fn bool(&mut self, _: &DispatchTensor) -> Result<(), Self::Error> {
            Ok(())
        }
        fn quantized(&mut self, _: &DispatchTensor) -> Result<(), Self::Error> {
            Ok(())
        }
    }
    let mut tracked = Tracked::<B>(false, PhantomData);
    let Ok(_) = O::Inputs::try_map_ref::<Dispatch, Nothing, _>(inputs, &mut tracked);
    tracked.0
}

/// Puts primitives of backend `B` into the routed form, in the context of the call.
struct Raise<B> {
    context: Context,
    backend: PhantomData<B>,
}

impl<B: Routable> Raise<B> {
    fn new(context: Context) -> Self {
        Self {
            context,
            backend: PhantomData,
        }
    }

    #[inline(always)]
    fn raise(&self, tensor: BackendTensor<B>) -> Result<DispatchTensor, DispatchError> {
        Ok(DispatchTensor {
            kind: B::wrap(tensor),
            autodiff: self.context,
        })
    }

    #[cfg(feature = "autodiff")]
    fn raise_autodiff(
        &self,
        tensor: burn::backend::tensor::FloatTensor<crate::backend::Autodiff<B>>,
    ) -> Result<DispatchTensor, DispatchError> {
        let kind = B::wrap(BackendTensor::Autodiff(tensor));
        let kind = burn::backend::DispatchTensorKind::Autodiff(Box::new(kind));
        Ok(DispatchTensor {
            kind,
            autodiff: self.context,
        })
    }
}

macro_rules! raise {
    ($source:ty, |$this:ident, $tensor:ident| $float:expr) => {
        impl<B: Routable> TryMap<$source, Dispatch> for Raise<B> {
            type Error = DispatchError;
            #[inline(always)]
            fn float(
                &mut self,
                $tensor: <$source as Family>::Float,
            ) -> Result<DispatchTensor, DispatchError> {
                let $this = self;
                $float
            }
            #[inline(always)]
            fn int(
                &mut self,
                tensor: B::IntTensorPrimitive,
            ) -> Result<DispatchTensor, DispatchError> {
                self.raise(BackendTensor::Int(tensor))
            }
            #[inline(always)]
            fn bool(
                &mut self,
                tensor: B::BoolTensorPrimitive,
            ) -> Result<DispatchTensor, DispatchError> {
                self.raise(BackendTensor::Bool(tensor))
            }
            #[inline(always)]
            fn quantized(
                &mut self,
                tensor: B::QuantizedTensorPrimitive,
            ) -> Result<DispatchTensor, DispatchError> {
                self.raise(BackendTensor::Quantized(tensor))
            }
        }
    };
}
raise!(B, |this, tensor| {
    #[cfg(feature = "autodiff")]
    if this.context != Context::Disabled {
        return this.raise_autodiff(crate::autodiff::constant::<B>(tensor));
    }
    this.raise(BackendTensor::Float(tensor))
});
#[cfg(feature = "autodiff")]
raise!(crate::backend::Autodiff<B>, |this, tensor| this
    .raise_autodiff(tensor));
