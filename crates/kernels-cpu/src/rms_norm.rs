//! RMSNorm over rows: `y = x / sqrt(mean(x²) + epsilon) ⊙ weight`
//! (Zhang and Sennrich, 2019, arXiv 1910.07467).
//!
//! Bytes moved, for `n` elements of `s` bytes:
//! - forward must read x and write y, `2·n·s`. Each row is read twice in a row; the second time it
//!   comes from the cache, unless a row alone is larger than that.
//! - backward must read x and the gradient and write dx, `3·n·s`, again with a second read of each row
//!   from the cache. The weight's gradient takes a partial sum of one row in `f64` per part
//!   (see `rows_per_part`), at most an eighth more for `f32`, written and read once.

use rayon::prelude::*;

use crate::element::{BLOCK, Element, Float};
use crate::rows::Rows;
use crate::sum;

/// Elements that make a task worth a thread's while.
const TASK: usize = 1 << 14;

/// Rows whose part of the weight's gradient is summed in the working type before it joins an `f64` sum.
const TILE: usize = 64;

/// Normalises each row: `(y, rstd)`, with `rstd = 1 / sqrt(mean(x²) + epsilon)` of each row.
///
/// `weight` is one row, or absent for ones. An empty row counts as one of zeros.
pub fn forward<E: Element>(
    x: &Rows<'_, E>,
    weight: Option<&[E]>,
    epsilon: f64,
) -> (Vec<E>, Vec<E::Sum>) {
    let (count, len) = (x.count(), x.row_len());
    debug_assert!(weight.is_none_or(|weight| weight.len() == len));
    let weight = weight.map(widen::<E>);
    let weight = weight.as_deref();

    let mut y = E::zeros(count * len);
    let mut rstd = vec![E::Sum::from_f64(epsilon.sqrt().recip()); count];
    if len == 0 {
        return (y, rstd);
    }
    let rows = TASK.div_ceil(len);
    let task = |(index, (y, rstd)): (usize, (&mut [E], &mut [E::Sum]))| {
        ForwardTask {
            x,
            weight,
            epsilon,
            first: index * rows,
            y,
            rstd,
        }
        .run()
    };
    if count <= rows {
        task((0, (&mut y, &mut rstd)));
    } else {
        y.par_chunks_mut(rows * len)
            .zip(rstd.par_chunks_mut(rows))
            .enumerate()
            .for_each(task);
    }
    (y, rstd)
}

/// Consecutive rows of the forward pass, for one thread.
struct ForwardTask<'a, E: Element> {
    x: &'a Rows<'a, E>,
    weight: Option<&'a [E::Sum]>,
    epsilon: f64,
    first: usize,
    y: &'a mut [E],
    rstd: &'a mut [E::Sum],
}

impl<E: Element> ForwardTask<'_, E> {
    fn run(self) {
        pulp::Arch::new().dispatch(self)
    }
}

impl<E: Element> pulp::NullaryFnOnce for ForwardTask<'_, E> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let len = self.x.row_len();
        let mut gathered = Vec::new();
        let mut wide = [E::Sum::ZERO; BLOCK];
        let mut out = [E::Sum::ZERO; BLOCK];

        let rows = self.y.chunks_exact_mut(len).zip(self.rstd).enumerate();
        for (row, (y, rstd)) in rows {
            let x = self.x.row(self.first + row, &mut gathered);

            let r = rstd_of(x, self.epsilon, &mut wide);
            *rstd = r;

            for (block, (x, y)) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)).enumerate() {
                let x = E::widen(x, &mut wide);
                E::narrow(y, &mut out, |y| match self.weight {
                    Some(weight) => {
                        let weight = &weight[block * BLOCK..];
                        for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                            *y = *x * r * *weight;
                        }
                    }
                    None => {
                        for (y, x) in y.iter_mut().zip(x) {
                            *y = *x * r;
                        }
                    }
                });
            }
        }
    }
}

/// The `rstd` of a row.
#[inline(always)]
fn rstd_of<E: Element>(x: &[E], epsilon: f64, wide: &mut [E::Sum; BLOCK]) -> E::Sum {
    let mut squares = 0.0;
    for x in x.chunks(BLOCK) {
        squares += sum::squares(E::widen(x, wide));
    }
    E::Sum::from_f64((squares / x.len() as f64 + epsilon).sqrt().recip())
}

/// [`forward`]'s y in place of x, rows of `len` elements one after the other: for a buffer that nobody
/// else holds. It spares the fresh memory, which costs a CPU more than the sums.
pub fn forward_in_place<E: Element>(x: &mut [E], len: usize, weight: Option<&[E]>, epsilon: f64) {
    debug_assert!(weight.is_none_or(|weight| weight.len() == len));
    let weight = weight.map(widen::<E>);
    let weight = weight.as_deref();
    if len == 0 {
        return;
    }
    debug_assert!(x.len().is_multiple_of(len));
    let task = |rows: &mut [E]| {
        InPlaceTask {
            rows,
            len,
            weight,
            epsilon,
        }
        .run()
    };
    if x.len() <= TASK {
        task(x);
    } else {
        x.par_chunks_mut(TASK.div_ceil(len) * len).for_each(task);
    }
}

/// Consecutive rows of the forward pass in place, for one thread.
struct InPlaceTask<'a, E: Element> {
    rows: &'a mut [E],
    len: usize,
    weight: Option<&'a [E::Sum]>,
    epsilon: f64,
}

impl<E: Element> InPlaceTask<'_, E> {
    fn run(self) {
        pulp::Arch::new().dispatch(self)
    }
}

impl<E: Element> pulp::NullaryFnOnce for InPlaceTask<'_, E> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut wide = [E::Sum::ZERO; BLOCK];
        for row in self.rows.chunks_exact_mut(self.len) {
            let r = rstd_of(row, self.epsilon, &mut wide);
            for (block, row) in row.chunks_mut(BLOCK).enumerate() {
                E::update(row, &mut wide, |row| match self.weight {
                    Some(weight) => {
                        for (value, weight) in row.iter_mut().zip(&weight[block * BLOCK..]) {
                            *value = *value * r * *weight;
                        }
                    }
                    None => {
                        for value in row {
                            *value = *value * r;
                        }
                    }
                });
            }
        }
    }
}

/// The gradients of [`forward`]: `(dx, dw)`, each only if `needed`.
///
/// With `g = grad ⊙ weight` and `x̂ = x·rstd`: `dx = rstd·(g − x̂·mean(g⊙x̂))` and `dw = Σ grad⊙x̂`
/// over the rows. `rstd` is what [`forward`] gave. `dw` has the same bits for any number of threads.
pub fn backward<E: Element>(
    x: &Rows<'_, E>,
    weight: Option<&[E]>,
    rstd: &[E::Sum],
    grad: &Rows<'_, E>,
    needed: (bool, bool),
) -> (Option<Vec<E>>, Option<Vec<E>>) {
    let (count, len) = (x.count(), x.row_len());
    debug_assert!(weight.is_none_or(|weight| weight.len() == len));
    debug_assert_eq!((grad.count(), grad.row_len()), (count, len));
    debug_assert_eq!(rstd.len(), count);
    let weight = weight.map(widen::<E>);
    let weight = weight.as_deref();

    let (dx_needed, dw_needed) = needed;
    let mut dx = E::zeros(if dx_needed { count * len } else { 0 });
    if count == 0 || len == 0 || !(dx_needed || dw_needed) {
        return (dx_needed.then_some(dx), dw_needed.then(|| E::zeros(len)));
    }

    let rows = if dw_needed {
        rows_per_part(count, len)
    } else {
        TASK.div_ceil(len)
    };
    let parts = count.div_ceil(rows);
    let mut dw_parts = vec![0.0f64; if dw_needed { parts * len } else { 0 }];
    // A part gets its rows of each output, or nothing of one that is not needed.
    let mut dx_of_part = dx.chunks_mut(rows * len);
    let mut dw_of_part = dw_parts.chunks_mut(len);
    let tasks: Vec<_> = (0..parts)
        .map(|part| BackwardTask {
            x,
            weight,
            rstd,
            grad,
            first: part * rows,
            rows: rows.min(count - part * rows),
            dx: dx_of_part.next(),
            dw: dw_of_part.next(),
        })
        .collect();
    if count * len <= TASK {
        tasks.into_iter().for_each(BackwardTask::run);
    } else {
        tasks.into_par_iter().for_each(BackwardTask::run);
    }

    let dw = dw_needed.then(|| sum_parts(&dw_parts, len));
    (dx_needed.then_some(dx), dw)
}

/// Rows that share one partial sum of the weight's gradient: at most 256 parts of at least 16 rows and
/// a task's worth of elements. It follows from the shape alone, so that sums come out the same however
/// many threads take part; no part's sum costs more than an eighth of the rows that it is taken from.
fn rows_per_part(count: usize, len: usize) -> usize {
    count.div_ceil(256).max(16).max(TASK.div_ceil(len))
}

/// Consecutive rows of the backward pass, for one thread: `rows` of them from row `first` on.
struct BackwardTask<'a, E: Element> {
    x: &'a Rows<'a, E>,
    weight: Option<&'a [E::Sum]>,
    rstd: &'a [E::Sum],
    grad: &'a Rows<'a, E>,
    first: usize,
    rows: usize,
    dx: Option<&'a mut [E]>,
    dw: Option<&'a mut [f64]>,
}

impl<E: Element> BackwardTask<'_, E> {
    fn run(self) {
        pulp::Arch::new().dispatch(self)
    }
}

impl<E: Element> pulp::NullaryFnOnce for BackwardTask<'_, E> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let len = self.x.row_len();
        let mean = 1.0 / len as f64;
        let (mut x_gathered, mut grad_gathered) = (Vec::new(), Vec::new());
        let mut x_wide = [E::Sum::ZERO; BLOCK];
        let mut grad_wide = [E::Sum::ZERO; BLOCK];
        let mut out = [E::Sum::ZERO; BLOCK];
        let mut tile = vec![E::Sum::ZERO; if self.dw.is_some() { len } else { 0 }];

        for index in 0..self.rows {
            let row = self.first + index;
            let x = self.x.row(row, &mut x_gathered);
            let grad = self.grad.row(row, &mut grad_gathered);
            let r = self.rstd[row];

            if let Some(dx) = &mut self.dx {
                let mut products = 0.0;
                for (block, (x, grad)) in x.chunks(BLOCK).zip(grad.chunks(BLOCK)).enumerate() {
                    let x = E::widen(x, &mut x_wide);
                    let grad = E::widen(grad, &mut grad_wide);
                    products += match self.weight {
                        Some(weight) => {
                            let weight = &weight[block * BLOCK..][..x.len()];
                            sum::products3(grad, weight, x)
                        }
                        None => sum::products(grad, x),
                    };
                }
                let projection = E::Sum::from_f64(products * r.to_f64() * mean);

                let dx = &mut dx[index * len..][..len];
                let blocks = x
                    .chunks(BLOCK)
                    .zip(grad.chunks(BLOCK))
                    .zip(dx.chunks_mut(BLOCK));
                for (block, ((x, grad), dx)) in blocks.enumerate() {
                    let x = E::widen(x, &mut x_wide);
                    let grad = E::widen(grad, &mut grad_wide);
                    E::narrow(dx, &mut out, |dx| match self.weight {
                        Some(weight) => {
                            let weight = &weight[block * BLOCK..];
                            for (((dx, x), grad), weight) in
                                dx.iter_mut().zip(x).zip(grad).zip(weight)
                            {
                                *dx = (*grad * *weight - *x * r * projection) * r;
                            }
                        }
                        None => {
                            for ((dx, x), grad) in dx.iter_mut().zip(x).zip(grad) {
                                *dx = (*grad - *x * r * projection) * r;
                            }
                        }
                    });
                }
            }

            if let Some(dw) = &mut self.dw {
                let blocks = x
                    .chunks(BLOCK)
                    .zip(grad.chunks(BLOCK))
                    .zip(tile.chunks_mut(BLOCK));
                for ((x, grad), tile) in blocks {
                    let x = E::widen(x, &mut x_wide);
                    let grad = E::widen(grad, &mut grad_wide);
                    for ((tile, x), grad) in tile.iter_mut().zip(x).zip(grad) {
                        *tile += *grad * (*x * r);
                    }
                }
                if (index + 1) % TILE == 0 || index + 1 == self.rows {
                    for (dw, tile) in dw.iter_mut().zip(&mut tile) {
                        *dw += tile.to_f64();
                        *tile = E::Sum::ZERO;
                    }
                }
            }
        }
    }
}

/// The sum of the parts, part after part, column by column.
fn sum_parts<E: Element>(parts: &[f64], len: usize) -> Vec<E> {
    let mut dw = E::zeros(len);
    dw.par_chunks_mut(BLOCK)
        .enumerate()
        .for_each(|(block, dw)| {
            let mut sums = [0.0f64; BLOCK];
            let sums = &mut sums[..dw.len()];
            for part in parts.chunks_exact(len) {
                for (sum, part) in sums.iter_mut().zip(&part[block * BLOCK..]) {
                    *sum += *part;
                }
            }
            E::narrow(dw, &mut [E::Sum::ZERO; BLOCK], |dw| {
                for (dw, sum) in dw.iter_mut().zip(sums) {
                    *dw = E::Sum::from_f64(*sum);
                }
            });
        });
    dw
}

/// A whole vector in the working type.
fn widen<E: Element>(values: &[E]) -> Vec<E::Sum> {
    let mut buffer = [E::Sum::ZERO; BLOCK];
    let mut wide = Vec::with_capacity(values.len());
    for block in values.chunks(BLOCK) {
        wide.extend_from_slice(E::widen(block, &mut buffer));
    }
    wide
}
