//! Between ndarray's views and the rows of `armature-cpu`.

use armature_cpu::Rows;
use burn_ndarray::SharedArray;
use ndarray::{ArcArray, ArrayView, IxDyn};

/// The rows of a tensor, read where they lie.
pub(crate) fn rows<'a, E: Copy>(view: &'a ArrayView<'a, E, IxDyn>) -> Rows<'a, E> {
    let (shape, strides) = (view.shape(), view.strides());
    if view.is_empty() {
        return Rows::new(&[], 0, shape, strides);
    }
    // The view's elements lie between these two distances from its first one.
    let reach = |stride_counts: fn(isize) -> bool| -> isize {
        shape
            .iter()
            .zip(strides)
            .filter(|(_, stride)| stride_counts(**stride))
            .map(|(length, stride)| (*length as isize - 1) * stride)
            .sum()
    };
    let (lowest, highest) = (reach(|stride| stride < 0), reach(|stride| stride > 0));
    // SAFETY: both ends are elements of the view, so of one allocation that the view keeps alive and
    // that holds initialised elements of `E` throughout: NdArray's storages are made from vectors
    // and from byte buffers of a tensor's size. Nothing writes to it while the view is borrowed:
    // storages are shared copy-on-write.
    let storage = unsafe {
        core::slice::from_raw_parts(
            view.as_ptr().offset(lowest),
            (highest - lowest) as usize + 1,
        )
    };
    Rows::new(storage, -lowest as usize, shape, strides)
}

/// A tensor's array, of this shape, from its elements in order.
pub(crate) fn array<E>(shape: &[usize], elements: Vec<E>) -> SharedArray<E> {
    ArcArray::from_shape_vec(IxDyn(shape), elements).expect("as many elements as the shape has")
}
