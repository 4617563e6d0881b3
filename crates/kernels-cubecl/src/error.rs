//! Why a kernel of this crate was not launched.

use burn_backend::DType;

/// Why a kernel of this crate was not launched.
///
/// A launch itself reports nothing: CubeCL compiles and runs it later, and what fails there comes out
/// when the result is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not run on tensors of this dtype on this device.
    #[error("{op} does not run in {dtype:?} on {device}; cast its inputs to {supported}")]
    DTypeUnsupported {
        /// The op.
        op: &'static str,
        /// The dtype that was asked for.
        dtype: DType,
        /// The device, as its runtime calls it.
        device: String,
        /// The dtypes that the kernel is written for; a device may lack some of them.
        supported: &'static str,
    },
    /// Two inputs that must share a dtype do not.
    #[error("{op}: {input} is {found:?} where x makes it {expected:?}; cast it")]
    DTypeMismatch {
        /// The op.
        op: &'static str,
        /// The input that differs.
        input: &'static str,
        /// The dtype that it should have.
        expected: DType,
        /// The dtype that it has.
        found: DType,
    },
    /// A tensor has more elements than this device's kernels can number.
    #[error(
        "{op}: {elements} elements are too many for {device}, which indexes with 32 bits; split the tensor"
    )]
    TooLarge {
        /// The op.
        op: &'static str,
        /// Elements of the largest tensor.
        elements: usize,
        /// The device, as its runtime calls it.
        device: String,
    },
}
