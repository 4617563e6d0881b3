//! The backends of this build, under the names that `arms!` uses.

#![allow(deprecated)] // NdArray and LibTorch are deprecated in Burn, and still served here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use burn::backend::{BackendTensor, DispatchTensor, DispatchTensorKind};

use burn::tensor::Device;

use crate::runs::Runs;
use crate::tag::BackendTag;
#[cfg(feature = "__cube")]
use crate::tag::CubeRuntime;

#[cfg(feature = "autodiff")]
pub use burn::backend::Autodiff;
#[cfg(feature = "capture")]
pub use burn::backend::Capture;
pub use burn::backend::Dispatch;
#[cfg(feature = "flex")]
pub use burn::backend::Flex;
#[cfg(feature = "tch")]
pub use burn::backend::LibTorch;
#[cfg(feature = "ndarray")]
pub use burn::backend::NdArray;
#[cfg(feature = "remote")]
pub use burn::backend::Remote;
/// `CubeBackend`, fused where burn-cubecl's feature `fusion` is on.
#[cfg(feature = "__cube")]
pub use burn_cubecl::Cube;
#[cfg(feature = "__cube")]
pub use burn_cubecl::CubeBackend;

/// A backend that a [`DispatchTensor`] can hold.
pub(crate) trait Routable: Runs {
    /// Puts a tensor of this backend into the routed form.
    fn wrap(tensor: BackendTensor<Self>) -> DispatchTensorKind;
    /// Takes it out again; `None` where it is of another backend.
    fn unwrap(kind: DispatchTensorKind) -> Option<BackendTensor<Self>>;
    /// Looks at it; `None` where it is of another backend.
    #[cfg(feature = "autodiff")]
    fn peek(kind: &DispatchTensorKind) -> Option<&BackendTensor<Self>>;
}

macro_rules! routable {
    ($(#[$cfg:meta])* $backend:ident) => {
        $(#[$cfg])*
        impl Routable for $backend {
            #[inline(always)]
            fn wrap(tensor: BackendTensor<Self>) -> DispatchTensorKind {
                DispatchTensorKind::$backend(tensor)
            }
            #[inline(always)]
            fn unwrap(kind: DispatchTensorKind) -> Option<BackendTensor<Self>> {
                match kind {
                    DispatchTensorKind::$backend(tensor) => Some(tensor),
                    // In a build with one backend there is no other.
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }
            #[cfg(feature = "autodiff")]
            #[inline(always)]
            fn peek(kind: &DispatchTensorKind) -> Option<&BackendTensor<Self>> {
                match kind {
                    DispatchTensorKind::$backend(tensor) => Some(tensor),
                    _ => None,
                }
            }
        }
    };
}
routable!(
    #[cfg(feature = "ndarray")]
    NdArray
);
routable!(
    #[cfg(feature = "flex")]
    Flex
);
routable!(
    #[cfg(feature = "__cube")]
    Cube
);
routable!(
    #[cfg(feature = "tch")]
    LibTorch
);
routable!(
    #[cfg(feature = "remote")]
    Remote
);
routable!(
    #[cfg(feature = "capture")]
    Capture
);

/// The backend of a routed tensor, from which its route follows; the cheap part of its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    #[cfg(feature = "ndarray")]
    NdArray,
    #[cfg(feature = "flex")]
    Flex,
    #[cfg(feature = "__cube")]
    Cube,
    #[cfg(feature = "tch")]
    LibTorch,
    #[cfg(feature = "remote")]
    Remote,
    #[cfg(feature = "capture")]
    Capture,
    /// One that another crate switched on in burn alone.
    Unknown,
}

impl Variant {
    #[inline(always)]
    pub(crate) fn of(kind: &DispatchTensorKind) -> Self {
        match kind {
            #[cfg(feature = "ndarray")]
            DispatchTensorKind::NdArray(_) => Self::NdArray,
            #[cfg(feature = "flex")]
            DispatchTensorKind::Flex(_) => Self::Flex,
            #[cfg(feature = "__cube")]
            DispatchTensorKind::Cube(_) => Self::Cube,
            #[cfg(feature = "tch")]
            DispatchTensorKind::LibTorch(_) => Self::LibTorch,
            #[cfg(feature = "remote")]
            DispatchTensorKind::Remote(_) => Self::Remote,
            #[cfg(feature = "capture")]
            DispatchTensorKind::Capture(_) => Self::Capture,
            #[cfg(feature = "autodiff")]
            DispatchTensorKind::Autodiff(inner) => Self::of(inner),
            #[allow(unreachable_patterns)]
            _ => Self::Unknown,
        }
    }
}

/// The tag of a tensor; `None` for a backend that armature-core was not built with.
pub fn tag_of(tensor: &DispatchTensor) -> Option<BackendTag> {
    tag_of_kind(&tensor.kind)
}

fn tag_of_kind(kind: &DispatchTensorKind) -> Option<BackendTag> {
    match kind {
        #[cfg(feature = "ndarray")]
        DispatchTensorKind::NdArray(_) => Some(BackendTag::NdArray),
        #[cfg(feature = "flex")]
        DispatchTensorKind::Flex(_) => Some(BackendTag::Flex),
        #[cfg(feature = "__cube")]
        DispatchTensorKind::Cube(tensor) => {
            use burn::backend::TensorMetadata;
            CubeRuntime::of(&tensor.device()).map(BackendTag::Cube)
        }
        #[cfg(feature = "tch")]
        DispatchTensorKind::LibTorch(_) => Some(BackendTag::LibTorch),
        #[cfg(feature = "remote")]
        DispatchTensorKind::Remote(_) => Some(BackendTag::Remote),
        #[cfg(feature = "capture")]
        DispatchTensorKind::Capture(_) => Some(BackendTag::Capture),
        #[cfg(feature = "autodiff")]
        DispatchTensorKind::Autodiff(inner) => tag_of_kind(inner),
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

/// The devices of a backend that this machine has; none for a backend that is not compiled in, or
/// whose devices have to be named ([`BackendTag::Remote`]).
///
/// The drivers are asked once in a process, by one thread at a time: some do not bear it otherwise.
pub fn devices(tag: BackendTag) -> Vec<Device> {
    static FOUND: Mutex<BTreeMap<BackendTag, Vec<Device>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.entry(tag).or_insert_with(|| find(tag)).clone()
}

fn find(tag: BackendTag) -> Vec<Device> {
    #[allow(unused_imports)]
    use burn::tensor::DeviceType;
    match tag {
        #[cfg(feature = "ndarray")]
        BackendTag::NdArray => vec![Device::ndarray()],
        #[cfg(feature = "flex")]
        BackendTag::Flex => vec![Device::flex()],
        #[cfg(feature = "cuda")]
        BackendTag::Cube(CubeRuntime::Cuda) => found(DeviceType::Cuda),
        #[cfg(feature = "rocm")]
        BackendTag::Cube(CubeRuntime::Rocm) => found(DeviceType::Rocm),
        #[cfg(feature = "wgpu")]
        BackendTag::Cube(CubeRuntime::Wgpu) => found(DeviceType::Wgpu),
        #[cfg(feature = "vulkan")]
        BackendTag::Cube(CubeRuntime::Vulkan) => found(DeviceType::Vulkan),
        #[cfg(feature = "metal")]
        BackendTag::Cube(CubeRuntime::Metal) => found(DeviceType::Metal),
        #[cfg(feature = "webgpu")]
        BackendTag::Cube(CubeRuntime::WebGpu) => found(DeviceType::WebGpu),
        #[cfg(feature = "cpu")]
        BackendTag::Cube(CubeRuntime::Cpu) => found(DeviceType::Cpu),
        #[cfg(feature = "tch")]
        BackendTag::LibTorch => found(DeviceType::LibTorch),
        #[cfg(feature = "capture")]
        BackendTag::Capture => vec![Device::capture()],
        _ => Vec::new(),
    }
}

#[allow(dead_code)] // Not in a build with CPU backends alone.
fn found(kind: burn::tensor::DeviceType) -> Vec<Device> {
    Device::enumerate(kind).into_iter().collect()
}
