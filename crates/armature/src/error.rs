//! The kernel crates' errors, as the error of a call.

use armature_core::DispatchError;

/// What a kernel crate reports.
pub(crate) trait KernelError {
    /// The same as the error of a call of the op `op`.
    fn of(self, op: &'static str) -> DispatchError;
}

/// The CPU crates' errors name no device: there is one.
macro_rules! cpu_error {
    ($feature:literal, $error:path, $device:literal) => {
        #[cfg(feature = $feature)]
        impl KernelError for $error {
            fn of(self, op: &'static str) -> DispatchError {
                match self {
                    Self::DTypeUnsupported { dtype, .. } => DispatchError::DTypeUnsupported {
                        op,
                        device: $device.to_owned(),
                        dtype,
                    },
                    other => DispatchError::execution(op, other),
                }
            }
        }
    };
}
cpu_error!("ndarray", armature_ndarray::Error, "NdArray(Cpu)");
cpu_error!("flex", armature_flex::Error, "Flex");

#[cfg(feature = "__cube")]
impl KernelError for armature_cubecl::Error {
    fn of(self, op: &'static str) -> DispatchError {
        match self {
            Self::DTypeUnsupported { dtype, device, .. } => {
                DispatchError::DTypeUnsupported { op, device, dtype }
            }
            other => DispatchError::execution(op, other),
        }
    }
}
