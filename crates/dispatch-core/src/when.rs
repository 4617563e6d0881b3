//! Items that are there exactly when a backend is: the one place where what a declaration expands
//! to follows armature-core's features, and not those of the crate that it stands in.
//!
//! A `cfg` in the body of an exported macro is read in the caller's crate; so each macro is defined
//! twice instead, and the `cfg` picks the definition here. (They are spelt out because an exported
//! macro that a macro defines cannot be reached by path.)

/// Keeps the items in it where NdArray is compiled in (armature-core's feature `ndarray`), and drops them elsewhere.
#[cfg(feature = "ndarray")]
#[macro_export]
macro_rules! when_ndarray {
    ($($item:tt)*) => { $($item)* };
}
/// Keeps the items in it where NdArray is compiled in (armature-core's feature `ndarray`), and drops them elsewhere.
#[cfg(not(feature = "ndarray"))]
#[macro_export]
macro_rules! when_ndarray {
    ($($item:tt)*) => {};
}

/// Keeps the items in it where Flex is compiled in (armature-core's feature `flex`), and drops them elsewhere.
#[cfg(feature = "flex")]
#[macro_export]
macro_rules! when_flex {
    ($($item:tt)*) => { $($item)* };
}
/// Keeps the items in it where Flex is compiled in (armature-core's feature `flex`), and drops them elsewhere.
#[cfg(not(feature = "flex"))]
#[macro_export]
macro_rules! when_flex {
    ($($item:tt)*) => {};
}

/// Keeps the items in it where a CubeCL runtime is compiled in (armature-core's features `cuda`, `rocm`, `wgpu`, `vulkan`, `metal`, `webgpu`, `cpu`), and drops them elsewhere.
#[cfg(feature = "__cube")]
#[macro_export]
macro_rules! when_cube {
    ($($item:tt)*) => { $($item)* };
}
/// Keeps the items in it where a CubeCL runtime is compiled in (armature-core's features `cuda`, `rocm`, `wgpu`, `vulkan`, `metal`, `webgpu`, `cpu`), and drops them elsewhere.
#[cfg(not(feature = "__cube"))]
#[macro_export]
macro_rules! when_cube {
    ($($item:tt)*) => {};
}

/// Keeps the items in it where LibTorch is compiled in (armature-core's feature `tch`), and drops them elsewhere.
#[cfg(feature = "tch")]
#[macro_export]
macro_rules! when_libtorch {
    ($($item:tt)*) => { $($item)* };
}
/// Keeps the items in it where LibTorch is compiled in (armature-core's feature `tch`), and drops them elsewhere.
#[cfg(not(feature = "tch"))]
#[macro_export]
macro_rules! when_libtorch {
    ($($item:tt)*) => {};
}

/// Keeps the items in it where Remote is compiled in (armature-core's feature `remote`), and drops them elsewhere.
#[cfg(feature = "remote")]
#[macro_export]
macro_rules! when_remote {
    ($($item:tt)*) => { $($item)* };
}
/// Keeps the items in it where Remote is compiled in (armature-core's feature `remote`), and drops them elsewhere.
#[cfg(not(feature = "remote"))]
#[macro_export]
macro_rules! when_remote {
    ($($item:tt)*) => {};
}

/// Keeps the items in it where Capture is compiled in (armature-core's feature `capture`), and drops them elsewhere.
#[cfg(feature = "capture")]
#[macro_export]
macro_rules! when_capture {
    ($($item:tt)*) => { $($item)* };
}
/// Keeps the items in it where Capture is compiled in (armature-core's feature `capture`), and drops them elsewhere.
#[cfg(not(feature = "capture"))]
#[macro_export]
macro_rules! when_capture {
    ($($item:tt)*) => {};
}

/// Declares the arms of an op: what runs it on each backend, and how it is differentiated there.
///
/// ```text
/// arms! {
///     impl MyOp {
///         forward {
///             NdArray => |op, inputs| …,              // a kernel: a closure or the path of a function
///             B @ (Flex | Cube) => generic::<B>,      // several backends, and a name for each in turn
///             LibTorch => unsupported("why"),
///             Remote => composite,
///             Capture => impl,                        // written by hand: `impl Arm<Capture> for MyOp`
///             _ => composite,                         // every other backend
///         }
///         gradient {
///             NdArray => (forward_saving, backward),  // a pair of closures or paths
///             B @ _ => (forward_saving::<B>, backward::<B>),  // or `composite`: Burn differentiates it
///         }
///     }
/// }
/// ```
///
/// The backends are `NdArray`, `Flex`, `Cube` (whose arms are on `CubeBackend`), `LibTorch`,
/// `Remote` and `Capture`. A listed backend that the build does not compile in is left out, without
/// any `cfg` in the crate that declares the op. A `#[cfg(…)]` on an arm is for kernels that are
/// optional in that crate: where it does not hold, the rest arm serves the backend.
///
/// - A forward kernel is a `fn(&Op, In<Op, B>) -> Result<Out<Op, B>, DispatchError>`.
/// - The rest arm `_` is `composite` ([`Composite`](crate::Composite)), `composite(function)` with a
///   `fn(&Op, In<Op, Dispatch>) -> Out<Op, Dispatch>` on routed tensors, or
///   `unsupported("reason")`. Without one, every backend of the build has to be listed, and one that
///   some other crate switches on in burn alone is an error at the declaration.
/// - A gradient arm is a pair of functions with the signatures of
///   [`GradientArm::forward_saving`](crate::GradientArm::forward_saving) and
///   [`GradientArm::backward`](crate::GradientArm::backward), `composite`,
///   `unsupported("reason")` or `impl`; a pair at `B @ _` serves every backend that is not listed, and
///   so is generic. Pairs need [`Differentiable`](crate::Differentiable). Without a
///   `gradient` block, an op with a composite rest arm is differentiated through it.
///
/// It expands to plain implementations of [`Arm`](crate::Arm), [`GradientArm`](crate::GradientArm)
/// and [`Rest`](crate::Rest), which can as well be written by hand.
#[macro_export]
macro_rules! arms {
    ($($declaration:tt)*) => {
        $crate::__private::arms! { [$crate] $($declaration)* }
    };
}
