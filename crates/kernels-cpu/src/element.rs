//! Element types: how a loop reads and writes them, and what it sums them in.

use half::slice::HalfFloatSliceExt;
use half::vec::HalfBitsVecExt;
use half::{bf16, f16};

/// Elements that a loop holds in its working type at a time: small enough for the first-level cache
/// beside the row itself, long enough to hide the cost of starting.
pub const BLOCK: usize = 1024;

/// A type that sums are kept in: `f32`, or `f64` for `f64` elements.
pub trait Float:
    Copy
    + Send
    + Sync
    + 'static
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + core::ops::AddAssign
{
    /// Zero.
    const ZERO: Self;

    /// The value in `f64`; exact.
    fn to_f64(self) -> f64;

    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
}

macro_rules! float {
    ($($float:ty),*) => {$(
        impl Float for $float {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }
        }
    )*};
}

float!(f32, f64);

/// A tensor element: `f32`, `f64`, `f16` or `bf16`.
///
/// Loops work on [`Sum`](Self::Sum) values, a block of at most [`BLOCK`] at a time. For `f32` and
/// `f64` those are the elements themselves, in place; half-precision blocks are converted to and from
/// a buffer, which keeps one loop for all and leaves the conversion to vector instructions.
pub trait Element: Copy + Send + Sync + 'static {
    /// The type that values of this one are worked on and summed in.
    type Sum: Float;

    /// A vector of zeros, from fresh pages where the allocator has them.
    fn zeros(len: usize) -> Vec<Self>;

    /// `values` in the working type: themselves, or converted into `buffer`.
    fn widen<'a>(values: &'a [Self], buffer: &'a mut [Self::Sum; BLOCK]) -> &'a [Self::Sum];

    /// Lets `fill` write `out` in the working type: in place, or in `buffer` and then rounded.
    fn narrow(
        out: &mut [Self],
        buffer: &mut [Self::Sum; BLOCK],
        fill: impl FnOnce(&mut [Self::Sum]),
    );

    /// Lets `change` rewrite `values` in the working type: in place, or in `buffer` and then rounded.
    fn update(
        values: &mut [Self],
        buffer: &mut [Self::Sum; BLOCK],
        change: impl FnOnce(&mut [Self::Sum]),
    );
}

macro_rules! own_sum {
    ($($float:ty),*) => {$(
        impl Element for $float {
            type Sum = Self;

            fn zeros(len: usize) -> Vec<Self> {
                vec![0.0; len]
            }

            #[inline(always)]
            fn widen<'a>(values: &'a [Self], _: &'a mut [Self; BLOCK]) -> &'a [Self] {
                values
            }

            #[inline(always)]
            fn narrow(out: &mut [Self], _: &mut [Self; BLOCK], fill: impl FnOnce(&mut [Self])) {
                fill(out)
            }

            #[inline(always)]
            fn update(values: &mut [Self], _: &mut [Self; BLOCK], change: impl FnOnce(&mut [Self])) {
                change(values)
            }
        }
    )*};
}

own_sum!(f32, f64);

impl Element for f16 {
    type Sum = f32;

    fn zeros(len: usize) -> Vec<Self> {
        vec![0u16; len].reinterpret_into()
    }

    // `half` looks for the machine's conversion instructions once per slice.
    #[inline(always)]
    fn widen<'a>(values: &'a [Self], buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
        let wide = &mut buffer[..values.len()];
        values.convert_to_f32_slice(wide);
        wide
    }

    #[inline(always)]
    fn narrow(out: &mut [Self], buffer: &mut [f32; BLOCK], fill: impl FnOnce(&mut [f32])) {
        let wide = &mut buffer[..out.len()];
        fill(wide);
        out.convert_from_f32_slice(wide);
    }

    #[inline(always)]
    fn update(values: &mut [Self], buffer: &mut [f32; BLOCK], change: impl FnOnce(&mut [f32])) {
        Self::widen(values, buffer);
        Self::narrow(values, buffer, change);
    }
}

impl Element for bf16 {
    type Sum = f32;

    fn zeros(len: usize) -> Vec<Self> {
        vec![0u16; len].reinterpret_into()
    }

    // Shifts and adds that the compiler vectorises in place; `half` converts bf16 one by one.
    #[inline(always)]
    fn widen<'a>(values: &'a [Self], buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
        let wide = &mut buffer[..values.len()];
        for (wide, value) in wide.iter_mut().zip(values) {
            *wide = f32::from_bits(u32::from(value.to_bits()) << 16);
        }
        wide
    }

    #[inline(always)]
    fn narrow(out: &mut [Self], buffer: &mut [f32; BLOCK], fill: impl FnOnce(&mut [f32])) {
        let wide = &mut buffer[..out.len()];
        fill(wide);
        for (out, wide) in out.iter_mut().zip(&*wide) {
            *out = bf16::from_bits(round_to_bf16(*wide));
        }
    }

    #[inline(always)]
    fn update(values: &mut [Self], buffer: &mut [f32; BLOCK], change: impl FnOnce(&mut [f32])) {
        Self::widen(values, buffer);
        Self::narrow(values, buffer, change);
    }
}

/// The bits of the nearest `bf16`, ties to even, NaN kept NaN.
#[inline(always)]
fn round_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    // A NaN could carry into infinity, or lose its only set bits: make it quiet instead.
    let quiet = bits | 0x0040_0000;
    (if value.is_nan() { quiet } else { nearest } >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_as_half_does() {
        // Every exponent and sign, with mantissas around each tie.
        for high in 0..=u16::MAX {
            for low in [0u16, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | u32::from(low));
                let ours = bf16::from_bits(round_to_bf16(value));
                let theirs = bf16::from_f32(value);
                assert!(
                    ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()),
                    "{value:e}: {ours:?} against {theirs:?}"
                );
            }
        }
    }

    #[test]
    fn halves_survive_the_round_trip() {
        fn check<E: Element<Sum = f32>>(values: &[E], bits: impl Fn(E) -> u16) {
            for block in values.chunks(BLOCK) {
                let wide = E::widen(block, &mut [0.0; BLOCK]).to_vec();
                let mut back = E::zeros(block.len());
                E::narrow(&mut back, &mut [0.0; BLOCK], |out| {
                    out.copy_from_slice(&wide)
                });
                for ((before, after), wide) in block.iter().zip(&back).zip(&wide) {
                    assert!(bits(*before) == bits(*after) || wide.is_nan());
                }
            }
        }
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        check(
            &bits.iter().map(|b| f16::from_bits(*b)).collect::<Vec<_>>(),
            f16::to_bits,
        );
        check(
            &bits.iter().map(|b| bf16::from_bits(*b)).collect::<Vec<_>>(),
            bf16::to_bits,
        );
    }
}
