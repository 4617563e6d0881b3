//! Which backend, and for CubeCL which runtime, holds a tensor.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The backend, and for CubeCL the runtime, that holds a tensor.
///
/// Displayed, parsed and serialised as the Cargo feature of Burn that compiles it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackendTag {
    /// `burn-ndarray`, on the CPU.
    NdArray,
    /// `burn-flex`, on the CPU.
    Flex,
    /// `burn-cubecl`, on the runtime that the tensor's device names.
    Cube(CubeRuntime),
    /// `burn-tch`, LibTorch.
    LibTorch,
    /// `burn-remote`: a device of another process or machine.
    Remote,
    /// `burn-capture`: recorded, not run.
    Capture,
}

/// A CubeCL runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CubeRuntime {
    /// NVIDIA CUDA.
    Cuda,
    /// AMD ROCm (HIP).
    Rocm,
    /// wgpu, on a graphics API of its own choice.
    Wgpu,
    /// wgpu pinned to Vulkan.
    Vulkan,
    /// wgpu pinned to Metal, or CubeCL's own Metal runtime.
    Metal,
    /// wgpu pinned to WebGPU.
    WebGpu,
    /// CubeCL's CPU runtime.
    Cpu,
}

impl CubeRuntime {
    /// The Cargo feature of Burn that compiles the runtime in.
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::WebGpu => "webgpu",
            Self::Cpu => "cpu",
        }
    }
}

impl BackendTag {
    /// Every tag there is, compiled in or not.
    pub const ALL: [Self; 12] = [
        Self::NdArray,
        Self::Flex,
        Self::Cube(CubeRuntime::Cuda),
        Self::Cube(CubeRuntime::Rocm),
        Self::Cube(CubeRuntime::Wgpu),
        Self::Cube(CubeRuntime::Vulkan),
        Self::Cube(CubeRuntime::Metal),
        Self::Cube(CubeRuntime::WebGpu),
        Self::Cube(CubeRuntime::Cpu),
        Self::LibTorch,
        Self::Remote,
        Self::Capture,
    ];

    /// The Cargo feature of Burn, and of Armature, that compiles the backend in.
    pub const fn feature(self) -> &'static str {
        match self {
            Self::NdArray => "ndarray",
            Self::Flex => "flex",
            Self::Cube(runtime) => runtime.feature(),
            Self::LibTorch => "tch",
            Self::Remote => "remote",
            Self::Capture => "capture",
        }
    }

    /// Whether armature-core's features compile this backend in.
    pub const fn is_compiled_in(self) -> bool {
        match self {
            Self::NdArray => cfg!(feature = "ndarray"),
            Self::Flex => cfg!(feature = "flex"),
            Self::Cube(CubeRuntime::Cuda) => cfg!(feature = "cuda"),
            Self::Cube(CubeRuntime::Rocm) => cfg!(feature = "rocm"),
            Self::Cube(CubeRuntime::Wgpu) => cfg!(feature = "wgpu"),
            Self::Cube(CubeRuntime::Vulkan) => cfg!(feature = "vulkan"),
            Self::Cube(CubeRuntime::Metal) => cfg!(feature = "metal"),
            Self::Cube(CubeRuntime::WebGpu) => cfg!(feature = "webgpu"),
            Self::Cube(CubeRuntime::Cpu) => cfg!(feature = "cpu"),
            Self::LibTorch => cfg!(feature = "tch"),
            Self::Remote => cfg!(feature = "remote"),
            Self::Capture => cfg!(feature = "capture"),
        }
    }
}

impl fmt::Display for BackendTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.feature())
    }
}

/// A name that is no backend's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no backend; use one of {all}", all = all_names())]
pub struct UnknownBackend(pub String);

fn all_names() -> String {
    BackendTag::ALL.map(BackendTag::feature).join(", ")
}

impl FromStr for BackendTag {
    type Err = UnknownBackend;

    /// Reads the name of a backend's Cargo feature.
    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        Self::ALL
            .into_iter()
            .find(|tag| tag.feature() == name)
            .ok_or_else(|| UnknownBackend(name.to_owned()))
    }
}

impl Serialize for BackendTag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.feature())
    }
}

impl<'de> Deserialize<'de> for BackendTag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "__cube")]
impl CubeRuntime {
    /// The runtime of a device; `None` for one that CubeCL has and this enum does not.
    pub fn of(device: &burn_cubecl::CubeDevice) -> Option<Self> {
        use burn_cubecl::CubeDevice;
        use burn_cubecl::cubecl::device::WgpuBackend;
        match device {
            CubeDevice::Cuda(_) => Some(Self::Cuda),
            CubeDevice::Hip(_) => Some(Self::Rocm),
            CubeDevice::Metal(_) => Some(Self::Metal),
            CubeDevice::Cpu(_) => Some(Self::Cpu),
            CubeDevice::Wgpu(device) => Some(match device.backend {
                WgpuBackend::Vulkan => Self::Vulkan,
                WgpuBackend::Metal => Self::Metal,
                WgpuBackend::WebGpu => Self::WebGpu,
                // DirectX 12 and OpenGL have no feature of their own.
                WgpuBackend::Auto | WgpuBackend::Dx12 | WgpuBackend::Gl => Self::Wgpu,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for tag in BackendTag::ALL {
            assert_eq!(tag.to_string().parse(), Ok(tag));
            let json = serde_json::to_string(&tag).unwrap();
            assert_eq!(json, format!("\"{tag}\""));
            assert_eq!(serde_json::from_str::<BackendTag>(&json).unwrap(), tag);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "cudda".parse::<BackendTag>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`cudda` is no backend; use one of ndarray, flex, cuda, rocm, wgpu, vulkan, metal, \
             webgpu, cpu, tch, remote, capture"
        );
    }
}
