//! What can go wrong when an op is called, and what to do about it.

use core::fmt;

use burn::backend::ExecutionError;
use burn::tensor::DType;

use crate::tag::BackendTag;

/// Why a call of an op was refused or failed. Nothing has been launched, except for
/// [`Execution`](Self::Execution).
///
/// Every text ends with what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// No input holds a tensor, so nothing says which backend is meant.
    #[error(
        "op `{op}`: no input holds a tensor, so no backend can be chosen; pass at least one tensor"
    )]
    NoTensorInput {
        /// The op's name.
        op: &'static str,
    },

    /// An input lives on another backend than the tensor that decides the route.
    #[error(
        "op `{op}`: input `{input}` is on the backend `{found}`, but the op runs on `{expected}`, \
         where its first float tensor is; move `{input}` there with `Tensor::to_device`"
    )]
    BackendsMixed {
        /// The op's name.
        op: &'static str,
        /// The input that stands out.
        input: InputName,
        /// The backend of the first float tensor (or, without one, of the first tensor).
        expected: BackendTag,
        /// The backend of the input.
        found: BackendTag,
    },

    /// An input lives on another device of the same backend.
    #[error(
        "op `{op}`: input `{input}` is on the device {found}, but the op runs on {expected}; move \
         `{input}` there with `Tensor::to_device`"
    )]
    DevicesMixed {
        /// The op's name.
        op: &'static str,
        /// The input that stands out.
        input: InputName,
        /// The device of the first tensor.
        expected: String,
        /// The device of the input.
        found: String,
    },

    /// The op says that it cannot run on this backend.
    #[error(
        "op `{op}` does not run on the backend `{backend}`: {reason}; {}",
        Instead(supported)
    )]
    Unsupported {
        /// The op's name.
        op: &'static str,
        /// The backend of the inputs.
        backend: BackendTag,
        /// What the op's arm gives as the reason.
        reason: &'static str,
        /// The backends of this build that the op does run on.
        supported: Vec<BackendTag>,
    },

    /// A tracked tensor met an op that says that it has no gradient on this backend.
    #[error(
        "op `{op}` has no gradient on the backend `{backend}`: {reason}; call it on \
         `Tensor::detach`ed inputs, or give the op a gradient arm for `{backend}`"
    )]
    GradientUnsupported {
        /// The op's name.
        op: &'static str,
        /// The backend of the inputs.
        backend: BackendTag,
        /// What the op's gradient arm gives as the reason.
        reason: &'static str,
    },

    /// The tensor's backend is none that armature-core was built with, and the op has no composite.
    #[error(
        "op `{op}`: a tensor is on {device}, a backend that another crate switched on in burn \
         alone; enable the same feature on armature-core, or give the op the rest arm `_ => composite`"
    )]
    FeatureDrift {
        /// The op's name.
        op: &'static str,
        /// The tensor's device.
        device: String,
    },

    /// The arm has no kernel for this dtype on this device.
    #[error(
        "op `{op}` has no kernel for the dtype {dtype:?} on the device {device}; cast the inputs \
         with `Tensor::cast`, for instance to `DType::F32`"
    )]
    DTypeUnsupported {
        /// The op's name.
        op: &'static str,
        /// The device of the inputs.
        device: String,
        /// The dtype asked for.
        dtype: DType,
    },

    /// An input does not fit the op.
    #[error("op `{op}`: input `{input}` must be {expected}, but is {found}; change `{input}`")]
    InvalidInput {
        /// The op's name.
        op: &'static str,
        /// The input, or the attribute, at fault.
        input: InputName,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },

    /// Two inputs belong to autodiff contexts with different gradient checkpointing strategies.
    #[error(
        "op `{op}`: input `{input}` uses the gradient checkpointing strategy {found}, another \
         input {expected}; create both on devices of one strategy (`Device::autodiff`, with or \
         without `gradient_checkpointing`), or detach one"
    )]
    CheckpointingMixed {
        /// The op's name.
        op: &'static str,
        /// The input that stands out.
        input: InputName,
        /// The strategy of the inputs before it.
        expected: String,
        /// The strategy of the input.
        found: String,
    },

    /// The arm was launched and failed.
    #[error(
        "op `{op}` failed while it ran: {cause}; if the device is out of memory, try a smaller \
         batch, otherwise report it to the op's author"
    )]
    Execution {
        /// The op's name.
        op: &'static str,
        /// What the backend reported.
        cause: ExecutionError,
    },
}

impl DispatchError {
    /// An [`Execution`](Self::Execution) error from whatever the backend reported.
    pub fn execution(op: &'static str, cause: impl fmt::Display) -> Self {
        Self::Execution {
            op,
            cause: ExecutionError::generic(cause.to_string()),
        }
    }
}

/// The cure of an unsupported backend.
struct Instead<'a>(&'a [BackendTag]);
impl fmt::Display for Instead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no backend of this build has an arm: enable another feature"),
            tags => {
                f.write_str("move the inputs, with `Tensor::to_device`, to one of ")?;
                for (i, tag) in tags.iter().enumerate() {
                    let separator = if i == 0 { "" } else { ", " };
                    write!(f, "{separator}`{tag}`")?;
                }
                Ok(())
            }
        }
    }
}

/// How an error names an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputName {
    /// The name that the op gives it.
    Named(&'static str),
    /// Its position among the op's inputs, from 0, where the op gives it no name.
    Position(usize),
}

impl InputName {
    /// The name of the input at `position`.
    pub(crate) fn of(names: &[&'static str], position: usize) -> Self {
        names
            .get(position)
            .map_or(Self::Position(position), |name| Self::Named(name))
    }
}

impl From<&'static str> for InputName {
    fn from(name: &'static str) -> Self {
        Self::Named(name)
    }
}

impl fmt::Display for InputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Position(position) => write!(f, "#{position}"),
        }
    }
}

/// What [`Op::infer`](crate::Op::infer) found wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidInput {
    /// The input, or the attribute, at fault.
    pub input: InputName,
    /// What it should be, as the end of "must be …".
    pub expected: String,
    /// What it is, as the end of "but is …".
    pub found: String,
}

impl InvalidInput {
    /// Says that `input` must be `expected`, but is `found`.
    pub fn new(
        input: impl Into<InputName>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self {
            input: input.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    pub(crate) fn of(self, op: &'static str) -> DispatchError {
        DispatchError::InvalidInput {
            op,
            input: self.input,
            expected: self.expected,
            found: self.found,
        }
    }
}
