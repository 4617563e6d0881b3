//! What each version of Burn knows: its backends, the features that compile them in, and the names
//! that its macro takes. Read from the released sources of burn-dispatch and
//! burn-backend-extension.

use std::collections::BTreeSet;
use std::fmt;

use semver::Version;
use serde::{Serialize, Serializer};

use crate::error::Error;

/// A backend, by the name of its variant in Burn's `DispatchTensorKind`, which is also the name that
/// it is listed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend(&'static str);

impl Backend {
    /// The name that it is listed by.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl Serialize for Backend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// What one range of Burn's versions knows.
#[derive(Debug)]
pub struct Catalogue {
    /// The versions, for people.
    pub versions: &'static str,
    /// Features of burn-dispatch, and the backends that each compiles in.
    features: &'static [(&'static str, &'static [Backend])],
    /// What is there when no feature above is on.
    fallback: Option<Backend>,
    /// Types that backends are implemented by, beside those of their own name.
    types: &'static [(&'static str, &'static [Backend])],
    /// The backends that are wrapped in `Fusion` with the feature `fusion`.
    fused: &'static [Backend],
}

const CUBE: Backend = Backend("Cube");
const CPU: Backend = Backend("Cpu");
const CUDA: Backend = Backend("Cuda");
const METAL: Backend = Backend("Metal");
const ROCM: Backend = Backend("Rocm");
const VULKAN: Backend = Backend("Vulkan");
const WGPU: Backend = Backend("Wgpu");
const WEB_GPU: Backend = Backend("WebGpu");
const FLEX: Backend = Backend("Flex");
const ND_ARRAY: Backend = Backend("NdArray");
const LIB_TORCH: Backend = Backend("LibTorch");
const REMOTE: Backend = Backend("Remote");
const CAPTURE: Backend = Backend("Capture");
const GROUP: Backend = Backend("Group");

/// What `Remote` and `Capture` are aliases of, beside the types of their own.
const ROUTED: (&str, &[Backend]) = ("BackendRouter", &[REMOTE, CAPTURE]);
const REMOTE_TYPE: (&str, &[Backend]) = ("RemoteBackend", &[REMOTE]);

/// Types that stand for a backend for each runtime.
const RUNTIMES: &[(&str, &[Backend])] = &[
    (
        "CubeBackend",
        &[CUDA, ROCM, WGPU, VULKAN, METAL, WEB_GPU, CPU],
    ),
    ROUTED,
    REMOTE_TYPE,
];

/// The first pre-releases of 0.22: a backend for each runtime, and Flex where no local one is on.
static V0_22_PRE_1: Catalogue = Catalogue {
    versions: "0.22.0-pre.1 and -pre.2",
    features: &[
        ("ndarray", &[ND_ARRAY]),
        ("flex", &[FLEX]),
        ("cuda", &[CUDA]),
        ("rocm", &[ROCM]),
        ("wgpu", &[WGPU]),
        ("vulkan", &[VULKAN]),
        ("metal", &[METAL]),
        ("webgpu", &[WEB_GPU]),
        ("cpu", &[CPU]),
        ("tch", &[LIB_TORCH]),
        ("remote", &[REMOTE]),
    ],
    fallback: Some(FLEX),
    types: RUNTIMES,
    fused: &[],
};

/// As before, with Capture.
static V0_22_PRE_3: Catalogue = Catalogue {
    versions: "0.22.0-pre.3",
    features: &[
        ("ndarray", &[ND_ARRAY]),
        ("flex", &[FLEX]),
        ("cuda", &[CUDA]),
        ("rocm", &[ROCM]),
        ("wgpu", &[WGPU]),
        ("vulkan", &[VULKAN]),
        ("metal", &[METAL]),
        ("webgpu", &[WEB_GPU]),
        ("cpu", &[CPU]),
        ("tch", &[LIB_TORCH]),
        ("remote", &[REMOTE]),
        ("capture", &[CAPTURE]),
    ],
    fallback: Some(FLEX),
    types: RUNTIMES,
    fused: &[],
};

/// Burn 0.22, and its last pre-release: every CubeCL runtime is the one backend `Cube`.
static V0_22: Catalogue = Catalogue {
    versions: "0.22",
    features: &[
        ("ndarray", &[ND_ARRAY]),
        ("flex", &[FLEX]),
        ("cuda", &[CUBE]),
        ("rocm", &[CUBE]),
        ("wgpu", &[CUBE]),
        ("vulkan", &[CUBE]),
        ("metal", &[CUBE]),
        ("webgpu", &[CUBE]),
        ("cpu", &[CUBE]),
        ("tch", &[LIB_TORCH]),
        ("remote", &[REMOTE]),
        ("capture", &[CAPTURE]),
    ],
    fallback: None,
    types: &[("CubeBackend", &[CUBE]), ROUTED, REMOTE_TYPE],
    fused: &[CUBE],
};

/// Without NdArray and LibTorch, with Group.
static V0_23_PRE: Catalogue = Catalogue {
    versions: "0.23.0-pre.1",
    features: &[
        ("flex", &[FLEX]),
        ("cuda", &[CUBE]),
        ("rocm", &[CUBE]),
        ("wgpu", &[CUBE]),
        ("vulkan", &[CUBE]),
        ("metal", &[CUBE]),
        ("webgpu", &[CUBE]),
        ("cpu", &[CUBE]),
        ("remote", &[REMOTE]),
        ("group", &[GROUP]),
        ("capture", &[CAPTURE]),
    ],
    fallback: None,
    types: &[("CubeBackend", &[CUBE]), ROUTED, REMOTE_TYPE],
    fused: &[CUBE],
};

/// Every version known, the oldest first.
static ALL: [&Catalogue; 4] = [&V0_22_PRE_1, &V0_22_PRE_3, &V0_22, &V0_23_PRE];

impl Catalogue {
    /// The catalogue for a version of Burn.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownBurn`].
    pub fn of(version: &Version) -> Result<&'static Self, Error> {
        let pre = version.pre.as_str();
        match (version.major, version.minor, version.patch, pre) {
            (0, 22, 0, "pre.1" | "pre.2") => Ok(&V0_22_PRE_1),
            (0, 22, 0, "pre.3") => Ok(&V0_22_PRE_3),
            (0, 22, 0, "pre.4") | (0, 22, _, "") => Ok(&V0_22),
            (0, 23, 0, "pre.1") => Ok(&V0_23_PRE),
            _ => Err(Error::UnknownBurn {
                version: version.clone(),
                known: ALL.map(|known| known.versions).join(", "),
            }),
        }
    }

    /// The newest catalogue, for a workspace whose graph has no Burn.
    pub fn newest() -> &'static Self {
        &V0_22
    }

    /// Every backend, in the order in which tables show them.
    pub fn backends(&self) -> Vec<Backend> {
        let mut all: Vec<Backend> = Vec::new();
        for backend in self.features.iter().flat_map(|(_, backends)| *backends) {
            if !all.contains(backend) {
                all.push(*backend);
            }
        }
        all
    }

    /// The backends that burn-dispatch, or armature-core, compiles in with these features.
    pub fn compiled_in(&self, features: &BTreeSet<String>) -> BTreeSet<Backend> {
        let on = self
            .features
            .iter()
            .filter(|(feature, _)| features.contains(*feature));
        let mut on: BTreeSet<Backend> = on.flat_map(|(_, backends)| *backends).copied().collect();
        // What is remote, or records, is no local backend.
        if !on
            .iter()
            .any(|backend| ![REMOTE, CAPTURE].contains(backend))
        {
            on.extend(self.fallback);
        }
        on
    }

    /// Whether a backend is wrapped in `Fusion` where the feature `fusion` is on.
    pub fn fuses(&self, backend: Backend) -> bool {
        self.fused.contains(&backend)
    }

    /// The features that compile a backend in.
    pub fn features_of(&self, backend: Backend) -> impl Iterator<Item = &'static str> {
        self.features
            .iter()
            .filter(move |(_, backends)| backends.contains(&backend))
            .map(|(feature, _)| *feature)
    }

    /// Which backend is listed by `name`.
    pub fn listed(&self, name: &str) -> Option<Backend> {
        self.backends()
            .into_iter()
            .find(|backend| backend.0 == name)
    }

    /// The backends that a type of this name implements.
    pub fn of_type(&self, name: &str) -> Vec<Backend> {
        if let Some(backend) = self.listed(name) {
            return vec![backend];
        }
        let known = self.types.iter().find(|(ty, _)| *ty == name);
        known
            .map(|(_, backends)| backends.to_vec())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn compiled_in(version: &str, features: &[&str], expected: &[&str]) {
        let catalogue = Catalogue::of(&version.parse().unwrap()).unwrap();
        let features = features.iter().map(ToString::to_string).collect();
        let found: Vec<_> = catalogue
            .compiled_in(&features)
            .into_iter()
            .map(Backend::name)
            .collect();
        assert_eq!(found, expected, "{version}");
    }

    #[test]
    fn backends_follow_the_version() {
        compiled_in("0.22.0-pre.1", &["vulkan", "wgpu"], &["Vulkan", "Wgpu"]);
        compiled_in("0.22.0-pre.2", &["remote"], &["Flex", "Remote"]);
        compiled_in(
            "0.22.0-pre.3",
            &["ndarray", "capture"],
            &["Capture", "NdArray"],
        );
        compiled_in("0.22.1", &["vulkan", "wgpu", "cuda"], &["Cube"]);
        compiled_in("0.22.1", &[], &[]);
        compiled_in("0.23.0-pre.1", &["ndarray", "group"], &["Group"]);
    }

    #[test]
    fn a_version_that_is_not_known_names_those_that_are() {
        let error = Catalogue::of(&"0.24.0".parse().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("burn 0.24.0") && error.contains("0.22, 0.23.0-pre.1"),
            "{error}"
        );
        assert!(Catalogue::of(&"0.21.3".parse().unwrap()).is_err());
    }
}
