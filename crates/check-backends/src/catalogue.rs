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
}

const CUBE: Backend = Backend("Cube");
const FLEX: Backend = Backend("Flex");
const ND_ARRAY: Backend = Backend("NdArray");
const LIB_TORCH: Backend = Backend("LibTorch");
const REMOTE: Backend = Backend("Remote");
const CAPTURE: Backend = Backend("Capture");

/// Burn 0.22: every CubeCL runtime is the one backend `Cube`.
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
    types: &[
        ("CubeBackend", &[CUBE]),
        // What `Remote` and `Capture` are aliases of.
        ("BackendRouter", &[REMOTE, CAPTURE]),
        ("RemoteBackend", &[REMOTE]),
    ],
};

impl Catalogue {
    /// The catalogue for a version of Burn.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownBurn`].
    pub fn of(version: &Version) -> Result<&'static Self, Error> {
        match (version.major, version.minor) {
            (0, 22) if version.pre.is_empty() => Ok(&V0_22),
            _ => Err(Error::UnknownBurn {
                version: version.clone(),
                known: V0_22.versions.to_owned(),
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
        if on.is_empty() {
            on.extend(self.fallback);
        }
        on
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
