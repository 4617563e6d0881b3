//! The check itself: which builds are looked at, and what is made of each.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::catalogue::{Backend, Catalogue};
use crate::config::Config;
use crate::coverage::{Cell, Direction, Situation};
use crate::error::Error;
use crate::findings::Findings;
use crate::graph::{Graph, PackageIndex, Selection};
use crate::lints::{Level, LintId};
use crate::model::{Body, Declared, Dialect, Op};
use crate::report::{CellKind, CellReport, Column, OpCoverage, PackageCoverage, Report, SCHEMA};
use crate::resolve::{Build, Features, resolve};
use crate::sources;

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where to look.
    pub selection: Selection,
    /// The features of the build; `None` leaves cargo's defaults, and looks at every backend feature
    /// of the packages that declare ops with Armature besides.
    pub features: Option<Features>,
    /// Look at every backend feature, each alone and all together, for every package of the
    /// workspace that declares ops.
    pub each_feature: bool,
    /// Only the workspace's own packages.
    pub workspace_only: bool,
    /// Levels that are not the lints' own.
    pub levels: Vec<(LintId, Level)>,
}

/// Checks a workspace.
///
/// # Errors
///
/// Whatever keeps the tool from its work: see [`Error`]. What it finds is in the report.
pub fn check(options: &Options) -> Result<Report, Error> {
    let graph = Graph::load(&options.selection, &cargo_flags(options))?;
    let features = options.features.clone().unwrap_or_default();
    let build = resolve(&graph, &graph.selected, &features)?;
    let packages = read_all(&graph, &build, options)?;

    let checks = packages.par_iter().map(|package| {
        let catalogue = package.catalogue;
        let mut findings =
            Findings::new(&graph, catalogue, graph.members.contains(&package.package));
        let coverage = Check {
            graph: &graph,
            catalogue,
            options,
            build: &build,
            package,
        }
        .run(&mut findings)?;
        Ok((coverage, findings.finish()))
    });
    let checks = checks.collect::<Result<Vec<_>, Error>>()?;

    let (mut coverages, mut found) = (Vec::new(), Vec::new());
    for (coverage, findings) in checks {
        coverages.extend(coverage);
        found.extend(findings);
    }
    if coverages.is_empty() {
        // Before the macro there was, nothing could be found.
        for burn in graph.named("burn-core") {
            Catalogue::of(&graph.packages[burn].version)?;
        }
    }
    if coverages.is_empty() {
        found.push(Findings::no_ops(&graph));
    }
    let allowed = Config::read(&graph)?.apply(&mut found);
    for finding in &mut found {
        for (lint, level) in &options.levels {
            if *lint == finding.lint {
                finding.level = *level;
            }
        }
    }
    found.retain(|finding| finding.level != Level::Allow);
    found.sort_by(|one, other| {
        (other.level, &one.location, one.lint.name).cmp(&(
            one.level,
            &other.location,
            other.lint.name,
        ))
    });
    Ok(Report {
        version: SCHEMA,
        burn: graph
            .named("burn-dispatch")
            .next()
            .map(|burn| graph.packages[burn].version.to_string()),
        target: graph.target.triple.clone(),
        packages: coverages,
        findings: found,
        allowed,
    })
}

/// Cargo leaves packages that no feature asks for out of its graph.
fn cargo_flags(options: &Options) -> Vec<String> {
    if options.each_feature {
        return vec!["--all-features".to_owned()];
    }
    let Some(features) = &options.features else {
        return Vec::new();
    };
    let mut flags = Vec::new();
    if features.all {
        flags.push("--all-features".to_owned());
    }
    if features.no_default {
        flags.push("--no-default-features".to_owned());
    }
    if !features.named.is_empty() {
        flags.extend(["--features".to_owned(), features.named.join(",")]);
    }
    flags
}

/// The catalogue of the Burn that a package reaches.
fn catalogue_of(
    graph: &Graph,
    reachable: &BTreeSet<PackageIndex>,
) -> Result<&'static Catalogue, Error> {
    let mut own = graph
        .named("burn-dispatch")
        .filter(|burn| reachable.contains(burn));
    match own.next() {
        Some(burn) => Catalogue::of(&graph.packages[burn].version),
        None => Ok(Catalogue::newest()),
    }
}

/// A package that declares something.
struct Declaring {
    package: PackageIndex,
    reachable: BTreeSet<PackageIndex>,
    declared: Declared,
    catalogue: &'static Catalogue,
}

fn read_all(graph: &Graph, build: &Build, options: &Options) -> Result<Vec<Declaring>, Error> {
    let roots: BTreeSet<PackageIndex> = [
        "burn-backend",
        "burn-core",
        "burn",
        "burn-dispatch",
        "armature-core",
    ]
    .iter()
    .flat_map(|name| graph.named(name))
    .collect();
    let candidates: Vec<PackageIndex> = (0..graph.packages.len())
        .filter(|package| build.has(*package))
        .filter(|package| !options.workspace_only || graph.members.contains(package))
        .collect();
    let read = candidates.into_par_iter().map(|package| {
        let reachable = graph.reachable(package);
        if reachable.is_disjoint(&roots) {
            return Ok(None);
        }
        // Burn itself may be one that is not known, as long as nothing declares ops.
        let catalogue = catalogue_of(graph, &reachable);
        let known = catalogue.as_ref().copied().unwrap_or(Catalogue::newest());
        let declared = sources::read(graph, package, known)?;
        let nothing = declared.ops.is_empty() && declared.unread.is_empty();
        if nothing {
            return Ok(None);
        }
        Ok(Some(Declaring {
            package,
            reachable,
            declared,
            catalogue: catalogue?,
        }))
    });
    let read = read.collect::<Result<Vec<_>, Error>>()?;
    Ok(read.into_iter().flatten().collect())
}

/// One package under the check.
struct Check<'a> {
    graph: &'a Graph,
    catalogue: &'static Catalogue,
    options: &'a Options,
    build: &'a Build,
    package: &'a Declaring,
}

/// The builds that a column stands for.
struct Look {
    column: Column,
    /// Where outputs are asked for.
    plain: Build,
    /// Where gradients are asked for, too, and fusion.
    full: Build,
}

impl Look {
    fn of(backend: Backend, features: Option<Vec<String>>, plain: &Build, full: &Build) -> Self {
        Self {
            column: Column {
                name: backend.name().to_owned(),
                features,
                backends: vec![backend],
            },
            plain: plain.clone(),
            full: full.clone(),
        }
    }
}

impl Column {
    /// The build, in words.
    fn build(&self, package: &str) -> String {
        match self.features.as_deref() {
            None => "this build".to_owned(),
            // A column without a feature of its own is named after its backend.
            Some(features) if !features.contains(&self.name) => package.to_owned(),
            Some(_) => format!("{package} with {}", self.name),
        }
    }
}

impl Check<'_> {
    fn run(&self, findings: &mut Findings<'_>) -> Result<Vec<PackageCoverage>, Error> {
        let resolved = self.situation(self.build);
        let declared = &self.package.declared;
        for unread in &declared.unread {
            if unread.is_error
                && self.graph.members.contains(&self.package.package)
                && unread.cfg.holds(resolved.environment()) == Some(true)
            {
                return Err(Error::Source {
                    place: format!("{}:{}", unread.location.file, unread.location.line),
                    reason: unread.reason.clone(),
                });
            }
        }
        findings.declarations(&resolved, declared);

        let ops: Vec<&Op> = declared
            .ops
            .iter()
            .filter(|op| !op.methods.is_empty())
            .collect();
        for op in &ops {
            if resolved.has(&op.cfg) {
                for backend in &resolved.backends {
                    for direction in Direction::ALL {
                        let cell = resolved.cell(op, *backend, direction);
                        findings.cell(&resolved, op, *backend, direction, &cell, "this build");
                    }
                }
            }
        }
        // Armature's promise is about every feature; of Burn's macro it is asked for.
        let is_member = self.graph.members.contains(&self.package.package);
        let due = |op: &Op| {
            self.options.each_feature
                || is_member && self.options.features.is_none() && op.dialect == Dialect::Armature
        };
        let (in_each, in_this): (Vec<&Op>, Vec<&Op>) = ops.iter().partition(|op| due(op));
        let mut coverages = Vec::new();
        for (ops, each_feature) in [(in_each, true), (in_this, false)] {
            if ops.is_empty() {
                continue;
            }
            let mut looks = if each_feature {
                self.each_feature()?
            } else {
                Vec::new()
            };
            if looks.is_empty() {
                looks = self.this_build();
            }
            coverages.push(self.coverage(&ops, looks, findings));
        }
        Ok(coverages)
    }

    fn coverage(
        &self,
        ops: &[&Op],
        looks: Vec<Look>,
        findings: &mut Findings<'_>,
    ) -> PackageCoverage {
        let package = &self.graph.packages[self.package.package];
        let root = match self.graph.selected.as_slice() {
            [root] => self.graph.packages[*root].name.to_string(),
            _ => package.name.to_string(),
        };
        let mut coverages = Vec::new();
        for op in ops {
            let mut rows: BTreeMap<Direction, Vec<CellReport>> = BTreeMap::new();
            for look in &looks {
                let plain = self.situation(&look.plain);
                let full = self.situation(&look.full);
                let label = look.column.build(&root);
                for direction in Direction::ALL {
                    let mut worst = CellReport::off();
                    let situations = match direction {
                        Direction::Forward => vec![&plain, &full],
                        _ => vec![&full],
                    };
                    for situation in situations {
                        if !situation.has(&op.cfg) {
                            continue;
                        }
                        for backend in &look.column.backends {
                            let cell = situation.cell(op, *backend, direction);
                            findings.cell(situation, op, *backend, direction, &cell, &label);
                            let mut cell = CellReport::of(&cell);
                            if cell.kind == CellKind::Gap && situation.is_latent(op) {
                                cell.kind = CellKind::Latent;
                            }
                            worst = worst.worse(cell);
                        }
                    }
                    rows.entry(direction).or_default().push(worst);
                }
            }
            let mut row = |direction| rows.remove(&direction).unwrap_or_default();
            coverages.push(OpCoverage {
                name: op.name.clone(),
                subject: op.subject.clone(),
                dialect: op.dialect,
                location: op.location.clone(),
                methods: op
                    .methods
                    .iter()
                    .map(|method| method.name.clone())
                    .collect(),
                forward: row(Direction::Forward),
                gradient: row(Direction::Gradient),
                fusion: row(Direction::Fusion),
            });
        }
        PackageCoverage {
            name: package.name.to_string(),
            package_version: package.version.to_string(),
            columns: looks.into_iter().map(|look| look.column).collect(),
            ops: coverages,
        }
    }

    /// The resolved build, backend by backend.
    fn this_build(&self) -> Vec<Look> {
        let backends = self.situation(self.build).backends.into_iter();
        backends
            .map(|backend| Look::of(backend, None, self.build, self.build))
            .collect()
    }

    fn situation<'a>(&'a self, build: &'a Build) -> Situation<'a> {
        let Declaring {
            package, reachable, ..
        } = self.package;
        Situation::new(self.graph, build, *package, reachable, self.catalogue)
    }

    /// A build for each backend feature of the package's own, and for what it has without any.
    ///
    /// A dependency is looked at with the features of the package that is built, if it is one.
    fn each_feature(&self) -> Result<Vec<Look>, Error> {
        let package = match self.graph.selected.as_slice() {
            _ if self.graph.members.contains(&self.package.package) => self.package.package,
            [root] => *root,
            _ => return Ok(Vec::new()),
        };
        let with = |features: &[&str]| {
            resolve(
                self.graph,
                &[package],
                &Features::only(features.iter().copied()),
            )
        };
        let without = with(&[])?;
        let base = self.situation(&without);
        let declared = self.graph.features(package);
        let names = || {
            declared.keys().map(String::as_str).filter(|name| {
                // Names that start so are not for anyone to enable.
                *name != "default" && !name.starts_with('_')
            })
        };

        let mut backends: Vec<(&str, Build, Vec<Backend>)> = Vec::new();
        // Features are additive: whatever compiles no backend in may be on beside one that does, and
        // ops, autodiff and fusion may need it.
        let mut beside: Vec<String> = Vec::new();
        for name in names() {
            let build = with(&[name])?;
            let found = self.situation(&build).backends;
            let added: Vec<Backend> = found.difference(&base.backends).copied().collect();
            match added.is_empty() {
                true => beside.push(name.to_owned()),
                false => backends.push((name, build, added)),
            }
        }

        let order = |name: &str| {
            let all = self.catalogue.backends();
            let position = all
                .iter()
                .flat_map(|backend| self.catalogue.features_of(*backend))
                .position(|feature| feature == name);
            (position.unwrap_or(usize::MAX), name.to_owned())
        };
        backends.sort_by_key(|(name, _, _)| order(name));

        let single: BTreeSet<Backend> = backends
            .iter()
            .filter(|(_, _, added)| added.len() == 1)
            .flat_map(|(_, _, added)| added.iter().copied())
            .collect();
        let all: Vec<&str> = names().collect();
        let bare = with(&beside.iter().map(String::as_str).collect::<Vec<_>>())?;
        let mut looks: Vec<Look> = base
            .backends
            .iter()
            .map(|backend| Look::of(*backend, Some(beside.clone()), &without, &bare))
            .collect();
        for (name, plain, added) in backends {
            // What only gathers others shows nothing that they do not.
            if added.len() > 1 && added.iter().all(|backend| single.contains(backend)) {
                continue;
            }
            let mut features = vec![name];
            features.extend(beside.iter().map(String::as_str));
            looks.push(Look {
                full: with(&features)?,
                column: Column {
                    name: name.to_owned(),
                    features: Some(features.into_iter().map(str::to_owned).collect()),
                    backends: added,
                },
                plain,
            });
        }
        if self.options.each_feature && looks.len() > 1 {
            let together = with(&all)?;
            looks.push(Look {
                column: Column {
                    name: "all".to_owned(),
                    features: Some(all.iter().map(|name| (*name).to_owned()).collect()),
                    backends: self.situation(&together).backends.into_iter().collect(),
                },
                plain: together.clone(),
                full: together,
            });
        }
        Ok(looks)
    }
}

impl CellReport {
    fn off() -> Self {
        Self {
            kind: CellKind::Off,
            reason: None,
            location: None,
        }
    }

    fn of(cell: &Cell) -> Self {
        let (kind, reason, location) = match cell {
            Cell::Off => (CellKind::Off, None, None),
            Cell::Gap(_) => (CellKind::Gap, None, None),
            Cell::Unknown(reason, place) => {
                (CellKind::Unknown, Some(reason.clone()), Some(place.clone()))
            }
            Cell::Arm(body, place) => {
                let (kind, reason) = match body {
                    Body::Kernel => (CellKind::Kernel, None),
                    Body::Composite => (CellKind::Composite, None),
                    Body::Unsupported(reason) => (CellKind::Unsupported, Some(reason.clone())),
                    Body::Stub(..) => (CellKind::Stub, None),
                    Body::Missing => (CellKind::Gap, None),
                    Body::Unknown(reason) => (CellKind::Unknown, Some(reason.clone())),
                };
                (kind, reason, Some(place.clone()))
            }
        };
        Self {
            kind,
            reason,
            location,
        }
    }

    fn worse(self, other: Self) -> Self {
        if other.kind > self.kind { other } else { self }
    }
}
