//! The row loops that Armature's CPU kernels share, on plain slices: they know neither Burn nor a
//! tensor type.
//!
//! - [`Element`]: what a loop reads and writes, and the type that it sums in;
//! - [`Rows`]: a strided tensor seen as rows along its last dimension;
//! - [`rms_norm`]: the op's forward and backward over such rows.
//!
//! Loops are plain Rust over fixed lanes of independent accumulators. `pulp` compiles them once per
//! instruction set and picks one when the program runs, so a build for the x86-64 baseline uses AVX2
//! where the machine has it. Lanes, blocks and chunks follow from shapes alone, never from the
//! machine or the number of threads: the same input gives the same bits everywhere.

mod element;
pub mod rms_norm;
mod rows;
mod sum;

pub use element::{BLOCK, Element, Float};
pub use rows::Rows;
