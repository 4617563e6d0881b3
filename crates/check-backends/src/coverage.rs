//! What a build makes of what is declared: which arm, if any, an op has on each backend.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::catalogue::{Backend, Catalogue};
use crate::cfg::{Cfg, Environment};
use crate::graph::{Graph, PackageIndex};
use crate::model::{Arm, Block, Body, Dialect, Inputs, Location, Op};
use crate::resolve::Build;

/// What an op is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The outputs.
    Forward,
    /// The gradients of the inputs.
    Gradient,
    /// The outputs, lazily, on a fusion stream.
    Fusion,
}

impl Direction {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Gradient, Self::Fusion];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Gradient => "gradient",
            Self::Fusion => "fusion",
        }
    }
}

/// What stands in one place of the coverage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The build asks for nothing here.
    Off,
    /// An arm.
    Arm(Body, Location),
    /// Nothing, and why.
    Gap(Cause),
    /// It cannot be told, and why.
    Unknown(String, Location),
}

/// Why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No line names the backend.
    NotListed,
    /// A line names it under a condition that does not hold.
    Off(Cfg, Location),
    /// The backend is on in Burn, and armature-core does not know.
    Drift,
}

/// A package in a build, with all that its coverage depends on.
#[derive(Debug)]
pub struct Situation<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The build.
    pub build: &'a Build,
    /// The package that declares.
    pub package: PackageIndex,
    /// The features of burn-dispatch.
    pub dispatch: Option<PackageIndex>,
    /// The features of armature-core.
    pub core: Option<PackageIndex>,
    /// The backends that Burn has compiled in.
    pub backends: BTreeSet<Backend>,
    /// Those of them that armature-core knows of.
    pub known: BTreeSet<Backend>,
    /// Whether tensors can be tracked.
    pub autodiff: bool,
    /// Whether `Cube` is fused.
    pub fusion: bool,
    /// What its Burn knows.
    pub catalogue: &'static Catalogue,
    /// Whether a package of the workspace can call into the package.
    pub reached: bool,
}

impl<'a> Situation<'a> {
    /// Puts together what matters to `package` in `build`.
    pub fn new(
        graph: &'a Graph,
        build: &'a Build,
        package: PackageIndex,
        reachable: &BTreeSet<PackageIndex>,
        catalogue: &'static Catalogue,
    ) -> Self {
        // Several versions of Burn may be there; a package's own is the one that it reaches.
        let own = |name: &str| {
            graph
                .named(name)
                .find(|found| reachable.contains(found) && build.has(*found))
        };
        let (dispatch, core) = (own("burn-dispatch"), own("armature-core"));
        let on = |package: Option<PackageIndex>| {
            package.map(|package| catalogue.compiled_in(build.features(package)))
        };
        let known = on(core).unwrap_or_default();
        let mut backends = on(dispatch).unwrap_or_default();
        backends.extend(&known);
        let has = |package: Option<PackageIndex>, feature: &str| {
            package.is_some_and(|package| build.features(package).contains(feature))
        };
        Self {
            graph,
            build,
            package,
            dispatch,
            core,
            backends,
            known,
            autodiff: has(dispatch, "autodiff") || has(core, "autodiff"),
            fusion: has(dispatch, "fusion") || has(own("burn-cubecl"), "fusion"),
            catalogue,
            reached: graph.is_handed_on(package, |from, to| build.links(from, to)),
        }
    }

    /// What conditions of the package are evaluated in.
    pub fn environment(&self) -> Environment<'a> {
        Environment {
            features: self.build.features(self.package),
            target: &self.graph.target.cfg,
            test: self.graph.tests,
        }
    }

    /// Whether an item under this condition is part of the build; what cannot be told is taken to be.
    pub fn has(&self, cfg: &Cfg) -> bool {
        cfg.holds(self.environment()) != Some(false)
    }

    /// Whether nothing can call `op`: its package is a dependency of which no arm is on, and that
    /// nobody but other dependencies reaches, none of which hands it on.
    pub fn is_latent(&self, op: &Op) -> bool {
        let has_arm = |backend: &Backend| {
            matches!(
                self.cell(op, *backend, Direction::Forward),
                Cell::Arm(..) | Cell::Unknown(..)
            )
        };
        op.dialect == Dialect::BackendExtension
            && !self.reached
            && !self.backends.iter().any(has_arm)
    }

    /// What `op` has for `backend`.
    pub fn cell(&self, op: &Op, backend: Backend, direction: Direction) -> Cell {
        match (op.dialect, direction) {
            (_, Direction::Gradient) if !self.autodiff => Cell::Off,
            (_, Direction::Fusion) if !self.fusion || !self.catalogue.fuses(backend) => Cell::Off,
            (Dialect::Armature, Direction::Forward) => self.of_block(&op.forward, backend),
            (Dialect::Armature, Direction::Gradient) => self.of_block(&op.gradient, backend),
            // An arm for `CubeBackend` is lifted.
            (Dialect::Armature, Direction::Fusion) => match self.of_block(&op.forward, backend) {
                cell @ Cell::Arm(..) => cell,
                _ => Cell::Off,
            },
            (Dialect::BackendExtension, _) if op.methods.is_empty() => Cell::Off,
            (Dialect::BackendExtension, Direction::Forward) => {
                self.first(op.forward.arms.iter().filter(|arm| arm.serves(backend)))
            }
            (Dialect::BackendExtension, Direction::Gradient) => {
                let routed = op
                    .methods
                    .iter()
                    .any(|method| method.inputs != Inputs::None);
                match self.cell(op, backend, Direction::Forward) {
                    Cell::Arm(..) | Cell::Unknown(..) if routed => {
                        self.first(op.wrappers.autodiff.iter())
                    }
                    // Without the forward there is nothing to differentiate: one gap is enough.
                    _ => Cell::Off,
                }
            }
            (Dialect::BackendExtension, Direction::Fusion) => {
                match self.cell(op, backend, Direction::Forward) {
                    Cell::Arm(..) | Cell::Unknown(..) => {
                        self.first(op.wrappers.fusion.iter().chain(&op.wrappers.fusion_by_hand))
                    }
                    _ => Cell::Off,
                }
            }
        }
    }

    fn of_block(&self, block: &Block, backend: Backend) -> Cell {
        let known = self.core.is_none() || self.known.contains(&backend);
        let listed = match known {
            true => self.first(block.arms.iter().filter(|arm| arm.serves(backend))),
            // armature-core compiles no arm for what it does not know of.
            false => Cell::Gap(Cause::Drift),
        };
        match (listed, &block.rest) {
            (Cell::Gap(_), Some(rest)) => Cell::Arm(rest.body.clone(), rest.location.clone()),
            (cell, _) => cell,
        }
    }

    /// The first of these arms that the build has.
    fn first<'b>(&self, arms: impl Iterator<Item = &'b Arm>) -> Cell {
        let mut cause = Cause::NotListed;
        for arm in arms {
            match arm.cfg.holds(self.environment()) {
                Some(true) => {
                    return match &arm.body {
                        Body::Unknown(reason) => {
                            Cell::Unknown(reason.clone(), arm.location.clone())
                        }
                        body => Cell::Arm(body.clone(), arm.location.clone()),
                    };
                }
                Some(false) => cause = Cause::Off(arm.cfg.clone(), arm.location.clone()),
                None => {
                    let reason = format!("whether `{}` holds cannot be told", arm.cfg);
                    return Cell::Unknown(reason, arm.location.clone());
                }
            }
        }
        Cell::Gap(cause)
    }
}
