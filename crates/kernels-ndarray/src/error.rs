//! Why a kernel of this crate did not run.

use burn_backend::DType;

/// Why a kernel of this crate did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not exist for tensors of this dtype.
    #[error("{op} has no kernel for {dtype:?} here; cast its inputs to {supported}")]
    DTypeUnsupported {
        /// The op.
        op: &'static str,
        /// The dtype that was asked for.
        dtype: DType,
        /// The dtypes that it has kernels for.
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
}
