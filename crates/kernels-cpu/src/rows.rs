//! A strided tensor, seen as rows along its last dimension.

/// The rows of a tensor of any rank from one up: `count` rows of `len` elements.
///
/// A row whose elements lie next to each other is lent as it is; any other is gathered, element by
/// element, into the reader's buffer. So a transposed, sliced, expanded or flipped tensor is read once,
/// in place, with no contiguous copy of the whole.
#[derive(Debug, Clone)]
pub struct Rows<'a, E> {
    storage: &'a [E],
    /// Where the first element of the first row lies in the storage.
    start: usize,
    /// Length and stride of each dimension but the last; those that can be walked as one are one.
    outer: Vec<(usize, isize)>,
    count: usize,
    len: usize,
    stride: isize,
}

impl<'a, E: Copy> Rows<'a, E> {
    /// The rows of the tensor of this shape and these strides (in elements; zero and negative ones are
    /// fine) whose first element is `storage[start]`.
    ///
    /// # Panics
    ///
    /// If shape and strides differ in length, if the shape is empty, or if an element would lie outside
    /// the storage.
    pub fn new(storage: &'a [E], start: usize, shape: &[usize], strides: &[isize]) -> Self {
        assert_eq!(shape.len(), strides.len(), "a stride for each dimension");
        let (Some((&len, outer_shape)), Some((&stride, outer_strides))) =
            (shape.split_last(), strides.split_last())
        else {
            panic!("rows need a tensor of rank one or more")
        };
        let count = outer_shape.iter().product();

        if count > 0 && len > 0 {
            let (mut lowest, mut highest) = (start as isize, start as isize);
            for (length, stride) in shape.iter().zip(strides) {
                let reach = (*length as isize - 1) * stride;
                lowest += reach.min(0);
                highest += reach.max(0);
            }
            assert!(
                lowest >= 0 && highest < storage.len() as isize,
                "a tensor of shape {shape:?} and strides {strides:?} leaves its storage"
            );
        }

        let mut outer: Vec<(usize, isize)> = Vec::with_capacity(outer_shape.len());
        for (&length, &stride) in outer_shape.iter().zip(outer_strides) {
            match outer.last_mut() {
                _ if length == 1 => {}
                Some(before) if before.1 == stride * length as isize => {
                    *before = (before.0 * length, stride)
                }
                _ => outer.push((length, stride)),
            }
        }

        Self {
            storage,
            start,
            outer,
            count,
            len,
            stride: if len == 1 { 1 } else { stride },
        }
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Elements of one row.
    pub fn row_len(&self) -> usize {
        self.len
    }

    /// A row, lent from the storage or gathered into `gathered`.
    #[inline]
    pub fn row<'s>(&'s self, row: usize, gathered: &'s mut Vec<E>) -> &'s [E] {
        let mut start = self.start as isize;
        let mut rest = row;
        for (length, stride) in self.outer.iter().rev() {
            start += (rest % length) as isize * stride;
            rest /= length;
        }
        if self.stride == 1 {
            return &self.storage[start as usize..][..self.len];
        }
        gathered.clear();
        gathered.extend(
            (0..self.len)
                .map(|index| self.storage[(start + index as isize * self.stride) as usize]),
        );
        gathered
    }

    /// All elements, row after row: for the small tensors beside the one that is large.
    pub fn to_vec(&self) -> Vec<E> {
        let mut all = Vec::with_capacity(self.count * self.len);
        let mut gathered = Vec::new();
        for row in 0..self.count {
            all.extend_from_slice(self.row(row, &mut gathered));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORAGE: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

    fn all(start: usize, shape: &[usize], strides: &[isize]) -> Vec<u32> {
        Rows::new(&STORAGE, start, shape, strides).to_vec()
    }

    #[test]
    fn layouts_are_read_in_logical_order() {
        assert_eq!(all(0, &[3, 4], &[4, 1]), STORAGE);
        assert_eq!(
            all(0, &[4, 3], &[1, 4]),
            [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
        );
        assert_eq!(all(5, &[2, 2], &[4, 1]), [5, 6, 9, 10]);
        assert_eq!(all(1, &[2, 3], &[0, 1]), [1, 2, 3, 1, 2, 3]);
        assert_eq!(all(1, &[2, 3], &[4, 0]), [1, 1, 1, 5, 5, 5]);
        assert_eq!(
            all(11, &[3, 4], &[-4, -1]),
            [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
        );
        assert_eq!(
            all(0, &[2, 3, 2], &[1, 4, 2]),
            [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
        );
        assert_eq!(all(7, &[1, 1], &[0, 99]), [7]);
        assert_eq!(all(0, &[4], &[3]), [0, 3, 6, 9]);
    }

    #[test]
    fn contiguous_outer_dimensions_are_walked_as_one() {
        let rows = Rows::new(&STORAGE, 0, &[2, 1, 3, 2], &[6, 77, 2, 1]);
        assert_eq!(rows.outer, [(6, 2)]);
        assert_eq!((rows.count(), rows.row_len()), (6, 2));
    }

    #[test]
    fn empty_tensors_have_no_elements() {
        assert_eq!(all(0, &[0, 4], &[4, 1]), []);
        assert_eq!(all(0, &[3, 0], &[0, 1]), []);
        assert_eq!(Rows::new(&STORAGE, 0, &[3, 0], &[0, 1]).count(), 3);
        assert_eq!(Rows::<u32>::new(&[], 0, &[0], &[1]).count(), 1);
    }

    #[test]
    #[should_panic(expected = "leaves its storage")]
    fn a_layout_outside_the_storage_is_refused() {
        all(1, &[3, 4], &[4, 1]);
    }

    #[test]
    #[should_panic(expected = "leaves its storage")]
    fn a_flip_before_the_storage_is_refused() {
        all(2, &[4], &[-1]);
    }
}
