//! Registering a task on Burn's fusion stream, to be run when the stream gets there.

use core::convert::Infallible;

use burn::backend::{ExecutionError, TensorMetadata};
use burn_fusion::custom::{
    CustomOpIr, HandleContainer, Operation, OperationIr, StreamId, TensorIr,
};
use burn_fusion::{Client, Fusion, FusionBackend, FusionHandle, FusionRuntime, FusionTensor};

use crate::error::DispatchError;
use crate::runs::{Runs, Task};
use crate::tree::{Family, Nothing, Specs, SpecsOf, TensorSpec, Tree, TryMap, TryMapRef};

impl<B: FusionBackend> Runs for Fusion<B> {
    type Native = B;

    fn run<T: Task<B>>(
        task: T,
        inputs: <T::Inputs as Tree>::Of<Self>,
    ) -> Result<<T::Output as Tree>::Of<Self>, DispatchError> {
        let Ok(specs) = T::Inputs::try_map_ref::<Self, Specs, _>(&inputs, &mut SpecsOf);
        let specs = task.specs(&specs)?;

        let mut taken = Take::<B::FusionRuntime> {
            client: None,
            inputs: Vec::new(),
        };
        let Ok(inputs) = T::Inputs::try_map::<Self, Described, _>(inputs, &mut taken);
        let Some(client) = taken.client else {
            return Err(DispatchError::NoTensorInput { op: T::OP });
        };

        let mut described = Vec::new();
        let mut describe = |spec: &TensorSpec| {
            let id = client.create_empty_handle();
            let ir = TensorIr::uninit(id, spec.shape.clone(), spec.dtype);
            described.push(ir.clone());
            Ok::<_, Infallible>(ir)
        };
        let Ok(output) =
            T::Output::try_map_ref::<Specs, Described, _>(&specs, &mut Leaves(&mut describe));

        let ir = CustomOpIr {
            id: format!("{}{}", T::OP, T::SUFFIX),
            inputs: taken.inputs,
            outputs: described,
            scalars: Vec::new(),
        };
        let operation = Lazy::<T, B> {
            task,
            inputs,
            output: output.clone(),
        };
        let tensors = client.register(StreamId::current(), OperationIr::Custom(ir), operation);

        let mut tensors = tensors.into_iter();
        // `register` gives one tensor for each described output, in order.
        let mut next = |_: &TensorIr| tensors.next().ok_or_else(|| miscounted(T::OP));
        T::Output::try_map_ref::<Described, Self, _>(&output, &mut Leaves(&mut next))
    }
}

fn miscounted(op: &'static str) -> DispatchError {
    DispatchError::execution(
        op,
        "the fusion stream gave another number of outputs than it was told",
    )
}

/// A tensor's description on the fusion stream at every leaf.
#[derive(Debug)]
enum Described {}
impl Family for Described {
    type Float = TensorIr;
    type Int = TensorIr;
    type Bool = TensorIr;
    type Quantized = TensorIr;
}

/// Maps the leaves of every kind by one closure, by reference.
struct Leaves<'a, C>(&'a mut C);

impl<F, G, L, K, E, C> TryMapRef<F, G> for Leaves<'_, C>
where
    F: Family<Float = L, Int = L, Bool = L, Quantized = L>,
    G: Family<Float = K, Int = K, Bool = K, Quantized = K>,
    C: FnMut(&L) -> Result<K, E>,
{
    type Error = E;
    fn float(&mut self, leaf: &L) -> Result<K, E> {
        (self.0)(leaf)
    }
    fn int(&mut self, leaf: &L) -> Result<K, E> {
        (self.0)(leaf)
    }
    fn bool(&mut self, leaf: &L) -> Result<K, E> {
        (self.0)(leaf)
    }
    fn quantized(&mut self, leaf: &L) -> Result<K, E> {
        (self.0)(leaf)
    }
}

/// Turns input tensors into their descriptions, and finds the stream's client.
struct Take<R: FusionRuntime> {
    client: Option<Client<R>>,
    inputs: Vec<TensorIr>,
}

impl<R: FusionRuntime> Take<R> {
    fn take(&mut self, tensor: FusionTensor<R>) -> Result<TensorIr, Infallible> {
        if self.client.is_none() {
            self.client = Some(tensor.client.clone());
        }
        let ir = tensor.into_ir();
        self.inputs.push(ir.clone());
        Ok(ir)
    }
}

impl<B: FusionBackend> TryMap<Fusion<B>, Described> for Take<B::FusionRuntime> {
    type Error = Infallible;
    fn float(&mut self, leaf: FusionTensor<B::FusionRuntime>) -> Result<TensorIr, Infallible> {
        self.take(leaf)
    }
    fn int(&mut self, leaf: FusionTensor<B::FusionRuntime>) -> Result<TensorIr, Infallible> {
        self.take(leaf)
    }
    fn bool(&mut self, leaf: FusionTensor<B::FusionRuntime>) -> Result<TensorIr, Infallible> {
        self.take(leaf)
    }
    fn quantized(&mut self, leaf: FusionTensor<B::FusionRuntime>) -> Result<TensorIr, Infallible> {
        self.take(leaf)
    }
}

/// A task on the fusion stream.
struct Lazy<T: Task<B>, B: FusionBackend> {
    task: T,
    inputs: <T::Inputs as Tree>::Of<Described>,
    output: <T::Output as Tree>::Of<Described>,
}

impl<T: Task<B>, B: FusionBackend> core::fmt::Debug for Lazy<T, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.task.fmt(f)
    }
}

impl<T: Task<B>, B: FusionBackend> Operation<B::FusionRuntime> for Lazy<T, B> {
    fn execute(
        &self,
        handles: &mut HandleContainer<FusionHandle<B::FusionRuntime>>,
    ) -> Result<(), ExecutionError> {
        let mut resolve = Resolve::<B>(handles);
        let Ok(inputs) = T::Inputs::try_map_ref::<Described, B, _>(&self.inputs, &mut resolve);
        let failed = |error: DispatchError| match error {
            DispatchError::Execution { cause, .. } => cause,
            error => ExecutionError::generic(error.to_string()),
        };
        let output = self.task.run(inputs).map_err(failed)?;

        let mut expected = Vec::new();
        let mut list = |ir: &TensorIr| {
            expected.push(ir.clone());
            Ok::<_, Infallible>(ir.clone())
        };
        let Ok(_) =
            T::Output::try_map_ref::<Described, Described, _>(&self.output, &mut Leaves(&mut list));
        let mut publish = Publish::<B> {
            op: T::OP,
            handles,
            expected: expected.into_iter(),
        };
        T::Output::try_map::<B, Nothing, _>(output, &mut publish).map_err(failed)?;
        match publish.expected.next() {
            None => Ok(()),
            Some(_) => Err(failed(miscounted(T::OP))),
        }
    }
}

/// Looks input tensors up when the task runs.
struct Resolve<'a, B: FusionBackend>(&'a mut HandleContainer<FusionHandle<B::FusionRuntime>>);

impl<B: FusionBackend> TryMapRef<Described, B> for Resolve<'_, B> {
    type Error = Infallible;
    fn float(&mut self, ir: &TensorIr) -> Result<B::FloatTensorPrimitive, Infallible> {
        Ok(self.0.get_float_tensor::<B>(ir))
    }
    fn int(&mut self, ir: &TensorIr) -> Result<B::IntTensorPrimitive, Infallible> {
        Ok(self.0.get_int_tensor::<B>(ir))
    }
    fn bool(&mut self, ir: &TensorIr) -> Result<B::BoolTensorPrimitive, Infallible> {
        Ok(self.0.get_bool_tensor::<B>(ir))
    }
    fn quantized(&mut self, ir: &TensorIr) -> Result<B::QuantizedTensorPrimitive, Infallible> {
        Ok(self.0.get_quantized_tensor::<B>(ir))
    }
}

/// Puts output tensors where the stream looks for them.
struct Publish<'a, B: FusionBackend> {
    op: &'static str,
    handles: &'a mut HandleContainer<FusionHandle<B::FusionRuntime>>,
    expected: std::vec::IntoIter<TensorIr>,
}

impl<B: FusionBackend> Publish<'_, B> {
    /// The description of the next output, held against the tensor that the arm gave: what comes
    /// after on the stream was planned by the description.
    fn next(&mut self, tensor: &impl TensorMetadata) -> Result<TensorIr, DispatchError> {
        let ir = self.expected.next().ok_or_else(|| miscounted(self.op))?;
        if ir.shape == tensor.shape() && ir.dtype == tensor.dtype() {
            return Ok(ir);
        }
        Err(DispatchError::execution(
            self.op,
            format_args!(
                "its arm gave a tensor of shape {:?} and dtype {:?} where `infer` had said {:?} and {:?}",
                tensor.shape(),
                tensor.dtype(),
                ir.shape,
                ir.dtype
            ),
        ))
    }
}

impl<B: FusionBackend> TryMap<B, Nothing> for Publish<'_, B> {
    type Error = DispatchError;
    fn float(&mut self, tensor: B::FloatTensorPrimitive) -> Result<(), DispatchError> {
        let ir = self.next(&tensor)?;
        self.handles.register_float_tensor::<B>(&ir.id, tensor);
        Ok(())
    }
    fn int(&mut self, tensor: B::IntTensorPrimitive) -> Result<(), DispatchError> {
        let ir = self.next(&tensor)?;
        self.handles.register_int_tensor::<B>(&ir.id, tensor);
        Ok(())
    }
    fn bool(&mut self, tensor: B::BoolTensorPrimitive) -> Result<(), DispatchError> {
        let ir = self.next(&tensor)?;
        self.handles.register_bool_tensor::<B>(&ir.id, tensor);
        Ok(())
    }
    fn quantized(&mut self, tensor: B::QuantizedTensorPrimitive) -> Result<(), DispatchError> {
        let ir = self.next(&tensor)?;
        self.handles.register_quantized_tensor::<B>(&ir.id, tensor);
        Ok(())
    }
}
