//! Which features a build has: what cargo's feature resolver does, over the graph that cargo gave.
//!
//! The features in `cargo metadata` are those of a coarser pass, which takes a weak one
//! (`dependency?/feature`) for an activating one. The compiler gets what is computed here.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::error::Error;
use crate::graph::{Edge, Graph, PackageIndex};

/// The features that are asked for of the selected packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// By name; `package/feature` reaches into a dependency.
    pub named: Vec<String>,
    /// All of them.
    pub all: bool,
    /// Not the default ones.
    pub no_default: bool,
}

impl Features {
    /// These, and nothing by default.
    pub fn only(named: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            named: named.into_iter().map(Into::into).collect(),
            all: false,
            no_default: true,
        }
    }
}

/// A package as it is built: for the target, or for the host, where the two are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// The package.
    pub package: PackageIndex,
    /// Whether it is built for procedural macros and build scripts only.
    pub host: bool,
}

/// Why a feature is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The build was asked for it.
    Asked,
    /// A line of a package's dependencies names it, or leaves the defaults on.
    Dependency {
        /// The package whose manifest has the line.
        from: Unit,
    },
    /// A feature of a package brings it.
    Feature {
        /// The package.
        from: Unit,
        /// Its feature.
        feature: String,
    },
}

/// The features of a build.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// For every unit of the build, its features and why each is on.
    features: HashMap<Unit, HashMap<String, Cause>>,
    sets: HashMap<Unit, BTreeSet<String>>,
    /// Who depends on whom, among what is built for the target.
    links: BTreeSet<(PackageIndex, PackageIndex)>,
}

impl Build {
    /// Whether a package is built for the target.
    pub fn has(&self, package: PackageIndex) -> bool {
        self.sets.contains_key(&Unit {
            package,
            host: false,
        })
    }

    /// The features of a package, as it is built for the target; none where it is not built.
    pub fn features(&self, package: PackageIndex) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.sets
            .get(&Unit {
                package,
                host: false,
            })
            .unwrap_or(&NONE)
    }

    /// Whether one package depends on another, as they are built for the target.
    pub fn links(&self, from: PackageIndex, to: PackageIndex) -> bool {
        self.links.contains(&(from, to))
    }

    /// Every unit of the build, with its features.
    pub fn units(&self) -> impl Iterator<Item = (Unit, &BTreeSet<String>)> {
        self.sets.iter().map(|(unit, features)| (*unit, features))
    }

    /// How a feature came to be on, from what was asked for to the feature itself.
    pub fn path(&self, graph: &Graph, package: PackageIndex, feature: &str) -> Vec<String> {
        let mut unit = Unit {
            package,
            host: false,
        };
        let mut feature = feature.to_owned();
        let mut steps = Vec::new();
        let mut seen = BTreeSet::new();
        while seen.insert((unit, feature.clone())) {
            steps.push(format!("{}/{feature}", graph.packages[unit.package].name));
            match self
                .features
                .get(&unit)
                .and_then(|features| features.get(&feature))
            {
                Some(Cause::Feature {
                    from,
                    feature: cause,
                }) => {
                    unit = *from;
                    feature.clone_from(cause);
                }
                Some(Cause::Dependency { from }) => {
                    steps.push(format!(
                        "the dependencies of {}",
                        graph.packages[from.package].name
                    ));
                    break;
                }
                Some(Cause::Asked) | None => break,
            }
        }
        steps.reverse();
        steps
    }
}

/// Computes the features of a build of `selected`.
///
/// # Errors
///
/// [`Error::NoFeature`].
pub fn resolve(
    graph: &Graph,
    selected: &[PackageIndex],
    features: &Features,
) -> Result<Build, Error> {
    let mut resolver = Resolver {
        graph,
        build: Build::default(),
        entered: BTreeSet::new(),
        dependencies: BTreeSet::new(),
        waiting: HashMap::new(),
        queue: VecDeque::new(),
    };
    resolver.ask(selected, features)?;
    resolver.run();
    let Resolver {
        mut build, entered, ..
    } = resolver;
    for unit in entered {
        let features = build.features.get(&unit);
        let features = features.map(|features| features.keys().cloned().collect());
        build.sets.insert(unit, features.unwrap_or_default());
    }
    Ok(build)
}

struct Resolver<'a> {
    graph: &'a Graph,
    build: Build,
    /// Units of the build.
    entered: BTreeSet<Unit>,
    /// Optional dependencies that are on, by their name in the manifest.
    dependencies: BTreeSet<(Unit, String)>,
    /// Weak features, kept until something turns their dependency on.
    waiting: HashMap<(Unit, String), Vec<(String, Cause)>>,
    queue: VecDeque<Step>,
}

/// What is left to do. A queue, not recursion, so that the first cause found of a feature is one of
/// the nearest.
enum Step {
    Enter(Unit),
    Feature(Unit, String, Cause),
    Dependency(Unit, String, Cause),
}

impl Resolver<'_> {
    fn ask(&mut self, selected: &[PackageIndex], features: &Features) -> Result<(), Error> {
        let mut unknown: BTreeSet<&String> = features.named.iter().collect();
        for &package in selected {
            let declared = self.graph.features(package);
            let mut units = vec![Unit {
                package,
                host: false,
            }];
            if self.graph.split_host && self.graph.is_proc_macro(package) {
                units.push(Unit {
                    package,
                    host: true,
                });
            }
            for unit in units {
                self.queue.push_back(Step::Enter(unit));
                if features.all {
                    for feature in declared.keys() {
                        self.queue
                            .push_back(Step::Feature(unit, feature.clone(), Cause::Asked));
                    }
                    unknown.clear();
                }
                if !features.no_default {
                    self.queue
                        .push_back(Step::Feature(unit, "default".to_owned(), Cause::Asked));
                }
                let name = self.graph.packages[package].name.as_str();
                for asked in &features.named {
                    // `package/feature`, where the package is this one, is the feature itself.
                    let own = asked
                        .split_once('/')
                        .filter(|(package, _)| *package == name);
                    let own = own.map_or(asked.as_str(), |(_, feature)| feature);
                    let dependency = own.split_once('/').is_some_and(|(dependency, _)| {
                        let dependency = dependency.trim_end_matches('?');
                        self.graph.edges[package]
                            .iter()
                            .any(|edge| edge.name == dependency)
                    });
                    if declared.contains_key(own) || dependency {
                        unknown.remove(asked);
                        self.value(unit, own, &Cause::Asked);
                    }
                }
            }
        }
        match unknown.first() {
            Some(feature) => Err(Error::NoFeature {
                feature: (*feature).clone(),
            }),
            None => Ok(()),
        }
    }

    fn run(&mut self) {
        while let Some(step) = self.queue.pop_front() {
            match step {
                Step::Enter(unit) => self.enter(unit),
                Step::Feature(unit, feature, cause) => self.feature(unit, feature, cause),
                Step::Dependency(unit, name, cause) => self.dependency(unit, name, &cause),
            }
        }
    }

    /// A unit becomes part of the build, with every dependency of its that is not optional.
    fn enter(&mut self, unit: Unit) {
        if !self.entered.insert(unit) {
            return;
        }
        let graph = self.graph;
        for edge in &graph.edges[unit.package] {
            if !graph.dependency(unit.package, edge).optional {
                self.follow(unit, edge, None);
            }
        }
    }

    fn feature(&mut self, unit: Unit, feature: String, cause: Cause) {
        let graph = self.graph;
        // Not every name is declared: `default` need not be, nor the feature that an optional
        // dependency of a `dependency/feature` would have made.
        let Some(values) = graph.features(unit.package).get(&feature) else {
            return;
        };
        let on = self.build.features.entry(unit).or_default();
        if on.contains_key(&feature) {
            return;
        }
        on.insert(feature.clone(), cause);
        let cause = Cause::Feature {
            from: unit,
            feature,
        };
        for value in values {
            self.value(unit, value, &cause);
        }
    }

    /// What stands on the right of a feature: `feature`, `dep:dependency`, `dependency/feature` or
    /// `dependency?/feature`.
    fn value(&mut self, unit: Unit, value: &str, cause: &Cause) {
        if let Some(dependency) = value.strip_prefix("dep:") {
            self.queue
                .push_back(Step::Dependency(unit, dependency.to_owned(), cause.clone()));
            return;
        }
        let Some((dependency, feature)) = value.split_once('/') else {
            self.queue
                .push_back(Step::Feature(unit, value.to_owned(), cause.clone()));
            return;
        };
        let (dependency, weak) = match dependency.strip_suffix('?') {
            Some(dependency) => (dependency, true),
            None => (dependency, false),
        };
        let graph = self.graph;
        for edge in graph.edges[unit.package]
            .iter()
            .filter(|edge| edge.name == dependency)
        {
            if graph.dependency(unit.package, edge).optional {
                let key = (unit, dependency.to_owned());
                if weak && !self.dependencies.contains(&key) {
                    let waiting = self.waiting.entry(key).or_default();
                    waiting.push((feature.to_owned(), cause.clone()));
                    continue;
                }
                if !weak {
                    let own = Step::Feature(unit, dependency.to_owned(), cause.clone());
                    self.queue.push_back(own);
                }
                let on = Step::Dependency(unit, dependency.to_owned(), cause.clone());
                self.queue.push_back(on);
            }
            if let Some(to) = self.unit_of(unit, edge) {
                self.queue
                    .push_back(Step::Feature(to, feature.to_owned(), cause.clone()));
            }
        }
    }

    /// An optional dependency is turned on.
    fn dependency(&mut self, unit: Unit, name: String, cause: &Cause) {
        let graph = self.graph;
        let key = (unit, name);
        if !self.dependencies.insert(key.clone()) {
            return;
        }
        let waiting = self.waiting.remove(&key).unwrap_or_default();
        for edge in graph.edges[unit.package]
            .iter()
            .filter(|edge| edge.name == key.1)
        {
            self.follow(unit, edge, Some(cause));
            if let Some(to) = self.unit_of(unit, edge) {
                for (feature, cause) in &waiting {
                    self.queue
                        .push_back(Step::Feature(to, feature.clone(), cause.clone()));
                }
            }
        }
    }

    /// A dependency enters the build with what its line in the manifest asks of it.
    fn follow(&mut self, unit: Unit, edge: &Edge, cause: Option<&Cause>) {
        let Some(to) = self.unit_of(unit, edge) else {
            return;
        };
        if !to.host {
            self.build.links.insert((unit.package, to.package));
        }
        let line = self.graph.dependency(unit.package, edge);
        let cause = match cause {
            Some(cause @ Cause::Feature { .. }) => cause.clone(),
            _ => Cause::Dependency { from: unit },
        };
        self.queue.push_back(Step::Enter(to));
        if line.uses_default_features {
            self.queue
                .push_back(Step::Feature(to, "default".to_owned(), cause.clone()));
        }
        for feature in &line.features {
            self.value(to, feature, &cause);
        }
    }

    /// What an edge leads to, where it is part of this build.
    fn unit_of(&self, unit: Unit, edge: &Edge) -> Option<Unit> {
        let graph = self.graph;
        if !graph.counts(unit.package, edge) {
            return None;
        }
        let dependency = graph.dependency(unit.package, edge);
        if let Some(platform) = &dependency.target {
            let target = if unit.host {
                &graph.host
            } else {
                &graph.target
            };
            if !platform.matches(&target.triple, &target.cfg) {
                return None;
            }
        }
        let for_host = dependency.kind == cargo_metadata::DependencyKind::Build
            || graph.is_proc_macro(edge.to);
        Some(Unit {
            package: edge.to,
            host: unit.host || graph.split_host && for_host,
        })
    }
}
