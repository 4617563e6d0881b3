//! Between Flex's tensors and the rows of `armature-cpu`.

use armature_cpu::Rows;
use burn_backend::{Bytes, Element, Shape};
use burn_flex::{FlexTensor, Layout};

/// The rows of a tensor, read where they lie.
pub(crate) fn rows<E: Element + bytemuck::Pod>(tensor: &FlexTensor) -> Rows<'_, E> {
    let layout = tensor.layout();
    Rows::new(
        tensor.storage(),
        layout.start_offset(),
        layout.shape(),
        layout.strides(),
    )
}

/// A tensor of this shape, from its elements in order.
pub(crate) fn tensor<E: Element + bytemuck::Pod>(shape: Shape, elements: Vec<E>) -> FlexTensor {
    debug_assert_eq!(shape.num_elements(), elements.len());
    FlexTensor::new(
        Bytes::from_elems(elements),
        Layout::contiguous(shape),
        E::dtype(),
    )
}
