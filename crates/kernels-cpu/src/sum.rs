//! Sums over long rows: fast, accurate, and the same bits on every machine.
//!
//! A block of at most [`BLOCK`](crate::element::BLOCK) terms is summed in [`LANES`] independent
//! accumulators, which the compiler turns into vector registers, and those are added in pairs. Blocks
//! are added in `f64`, so the error does not grow with the row.

use crate::element::Float;

/// Independent accumulators: four AVX2 registers of `f32`, enough to hide the latency of an addition.
const LANES: usize = 32;

/// The sum of `a²`, at most a block long.
#[inline(always)]
pub(crate) fn squares<A: Float>(a: &[A]) -> f64 {
    let (chunks, rest) = a.as_chunks::<LANES>();
    let mut lanes = [A::ZERO; LANES];
    for a in chunks {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * a[lane];
        }
    }
    for (lane, a) in lanes.iter_mut().zip(rest) {
        *lane += *a * *a;
    }
    pairwise(lanes)
}

/// The sum of `a·b`, at most a block long.
#[inline(always)]
pub(crate) fn products<A: Float>(a: &[A], b: &[A]) -> f64 {
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [A::ZERO; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += *a * *b;
    }
    pairwise(lanes)
}

/// The sum of `a·b·c`, at most a block long.
#[inline(always)]
pub(crate) fn products3<A: Float>(a: &[A], b: &[A], c: &[A]) -> f64 {
    let ((a_chunks, a_rest), (b_chunks, b_rest), (c_chunks, c_rest)) = (
        a.as_chunks::<LANES>(),
        b.as_chunks::<LANES>(),
        c.as_chunks::<LANES>(),
    );
    let mut lanes = [A::ZERO; LANES];
    for ((a, b), c) in a_chunks.iter().zip(b_chunks).zip(c_chunks) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane] * c[lane];
        }
    }
    for (lane, ((a, b), c)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest).zip(c_rest)) {
        *lane += *a * *b * *c;
    }
    pairwise(lanes)
}

/// The lanes, added in pairs.
#[inline(always)]
fn pairwise<A: Float>(mut lanes: [A; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0].to_f64()
}
