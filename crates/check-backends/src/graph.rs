//! The packages that cargo resolves, and who depends on whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{
    Dependency, DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind,
};

use crate::error::Error;

/// Where to look, and at which packages.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The manifest; else that of the current folder.
    pub manifest_path: Option<PathBuf>,
    /// The packages that are built; else cargo's choice for that manifest.
    pub packages: Vec<String>,
    /// Every member of the workspace.
    pub workspace: bool,
    /// The target; else the host.
    pub target: Option<String>,
    /// Whether tests, examples and benches are built too.
    pub tests: bool,
    /// Passed to cargo as they are: `--locked`, `--offline`, `--frozen`.
    pub cargo_flags: Vec<String>,
}

/// The index of a package in its graph.
pub type PackageIndex = usize;

/// The packages that cargo resolves, and who depends on whom.
#[derive(Debug)]
pub struct Graph {
    /// The packages.
    pub packages: Vec<Package>,
    /// For each package, what it depends on.
    pub edges: Vec<Vec<Edge>>,
    /// The members of the workspace.
    pub members: BTreeSet<PackageIndex>,
    /// The packages that are built.
    pub selected: Vec<PackageIndex>,
    /// The workspace's folder.
    pub root: PathBuf,
    /// The target, and what the compiler sets for it.
    pub target: Target,
    /// What the compiler sets for build scripts and procedural macros.
    pub host: Target,
    /// Whether dependencies of tests count.
    pub tests: bool,
    /// Whether packages that are built for the host have features of their own.
    pub split_host: bool,
    /// What the workspace says about this tool.
    pub metadata: serde_json::Value,
}

/// A platform to compile for.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name.
    pub triple: String,
    /// What the compiler sets for it.
    pub cfg: Vec<cargo_platform::Cfg>,
}

/// One line of a manifest's dependencies, and the package that it resolved to.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The package.
    pub to: PackageIndex,
    /// The line's index in the manifest's dependencies.
    pub line: usize,
    /// The name in the manifest.
    pub name: String,
}

impl Graph {
    /// Asks cargo.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`], [`Error::NoGraph`], [`Error::Target`], [`Error::NoPackage`].
    pub fn load(selection: &Selection, flags: &[String]) -> Result<Self, Error> {
        let host = Target::of_compiler(None)?;
        let target = match &selection.target {
            Some(triple) => Target::of_compiler(Some(triple))?,
            None => host.clone(),
        };
        let mut command = MetadataCommand::new();
        if let Some(path) = &selection.manifest_path {
            command.manifest_path(path);
        }
        let mut options = selection.cargo_flags.clone();
        options.extend(flags.iter().cloned());
        for platform in BTreeSet::from([&host.triple, &target.triple]) {
            options.extend(["--filter-platform".to_owned(), platform.clone()]);
        }
        command.other_options(options);
        Self::new(command.exec()?, selection, target, host)
    }

    fn new(
        metadata: Metadata,
        selection: &Selection,
        target: Target,
        host: Target,
    ) -> Result<Self, Error> {
        let resolve = metadata.resolve.ok_or(Error::NoGraph)?;
        let mut packages = metadata.packages;
        packages.sort_by(|one, other| one.id.repr.cmp(&other.id.repr));
        let index: HashMap<PackageId, PackageIndex> = packages
            .iter()
            .enumerate()
            .map(|(index, package)| (package.id.clone(), index))
            .collect();

        let mut edges = vec![Vec::new(); packages.len()];
        for node in &resolve.nodes {
            let Some(&from) = index.get(&node.id) else {
                continue;
            };
            for (line, dependency) in packages[from].dependencies.iter().enumerate() {
                let to = node
                    .deps
                    .iter()
                    .filter_map(|dep| Some((dep, *index.get(&dep.pkg)?)));
                let to = to.filter(|(dep, to)| {
                    dep.dep_kinds.iter().any(|kind| {
                        kind.kind == dependency.kind && kind.target == dependency.target
                    }) && is_of(dependency, &packages[*to])
                });
                let name = dependency.rename.as_ref().unwrap_or(&dependency.name);
                edges[from].extend(to.map(|(_, to)| Edge {
                    to,
                    line,
                    name: name.clone(),
                }));
            }
        }

        let members: BTreeSet<PackageIndex> = metadata
            .workspace_members
            .iter()
            .filter_map(|id| index.get(id).copied())
            .collect();
        let named = |name: &String| {
            let found = members
                .iter()
                .find(|member| packages[**member].name.as_str() == name);
            found.copied().ok_or_else(|| Error::NoPackage {
                name: name.clone(),
                known: members
                    .iter()
                    .map(|member| packages[*member].name.to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        };
        let selected = if !selection.packages.is_empty() {
            selection
                .packages
                .iter()
                .map(named)
                .collect::<Result<Vec<_>, _>>()?
        } else if let (Some(root), false) = (&resolve.root, selection.workspace) {
            index.get(root).copied().into_iter().collect()
        } else if metadata.workspace_default_members.is_available() && !selection.workspace {
            let ids = metadata.workspace_default_members.iter();
            ids.filter_map(|id| index.get(id).copied()).collect()
        } else {
            members.iter().copied().collect()
        };

        let root = metadata.workspace_root.into_std_path_buf();
        Ok(Self {
            split_host: splits_host(&root, &packages),
            packages,
            edges,
            members,
            selected,
            root,
            target,
            host,
            tests: selection.tests,
            metadata: metadata.workspace_metadata,
        })
    }

    /// The line of a manifest that an edge stands for.
    pub fn dependency(&self, from: PackageIndex, edge: &Edge) -> &Dependency {
        &self.packages[from].dependencies[edge.line]
    }

    /// Whether a package is a procedural macro.
    pub fn is_proc_macro(&self, package: PackageIndex) -> bool {
        self.packages[package]
            .targets
            .iter()
            .any(|target| target.kind.contains(&TargetKind::ProcMacro))
    }

    /// The first package of this name that is built for the target.
    pub fn named(&self, name: &str) -> impl Iterator<Item = PackageIndex> {
        let is_named = move |index: &PackageIndex| self.packages[*index].name.as_str() == name;
        (0..self.packages.len()).filter(is_named)
    }

    /// A package's folder.
    pub fn folder(&self, package: PackageIndex) -> &Path {
        let manifest = self.packages[package].manifest_path.as_std_path();
        manifest.parent().unwrap_or(manifest)
    }

    /// The packages that `package` depends on, itself among them, dependencies of tests left out
    /// unless they count.
    pub fn reachable(&self, package: PackageIndex) -> BTreeSet<PackageIndex> {
        let mut found = BTreeSet::from([package]);
        let mut open = vec![package];
        while let Some(from) = open.pop() {
            for edge in &self.edges[from] {
                if self.counts(from, edge) && found.insert(edge.to) {
                    open.push(edge.to);
                }
            }
        }
        found
    }

    /// Whether a line of a manifest can be part of the build at all.
    pub fn counts(&self, from: PackageIndex, edge: &Edge) -> bool {
        let dependency = self.dependency(from, edge);
        dependency.kind != DependencyKind::Development
            || (self.tests && self.members.contains(&from))
    }

    /// Whether a package of the workspace can name `package`: by depending on it, or through
    /// dependencies that re-export it.
    pub fn is_handed_on(
        &self,
        package: PackageIndex,
        links: impl Fn(PackageIndex, PackageIndex) -> bool,
    ) -> bool {
        let mut seen = BTreeSet::from([package]);
        let mut open = vec![package];
        while let Some(package) = open.pop() {
            if self.members.contains(&package) {
                return true;
            }
            for from in (0..self.packages.len()).filter(|from| links(*from, package)) {
                let edge = self.edges[from]
                    .iter()
                    .find(|edge| edge.to == package && self.counts(from, edge));
                let Some(edge) = edge else { continue };
                let hands_on = || self.members.contains(&from) || self.re_exports(from, &edge.name);
                if !seen.contains(&from) && hands_on() {
                    seen.insert(from);
                    open.push(from);
                }
            }
        }
        false
    }

    /// Whether the root file of a package's library re-exports a dependency.
    fn re_exports(&self, package: PackageIndex, name: &str) -> bool {
        let root = self.packages[package]
            .targets
            .iter()
            .find(|target| target.is_lib());
        let text = root.and_then(|root| std::fs::read_to_string(&root.src_path).ok());
        let name = name.replace('-', "_");
        text.is_some_and(|text| {
            text.lines().map(str::trim_start).any(|line| {
                let path = line
                    .strip_prefix("pub use ")
                    .or_else(|| line.strip_prefix("pub extern crate "));
                let path = path.map(|path| path.trim_start_matches("::"));
                path.and_then(|path| path.strip_prefix(name.as_str()))
                    .is_some_and(|rest| {
                        !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
                    })
            })
        })
    }

    /// The features of a package's manifest, and those that its optional dependencies make.
    pub fn features(&self, package: PackageIndex) -> &BTreeMap<String, Vec<String>> {
        &self.packages[package].features
    }
}

fn is_of(dependency: &Dependency, package: &Package) -> bool {
    let versions = &dependency.req;
    dependency.name == package.name.as_str()
        && (versions.matches(&package.version)
            // A patch or a path may stand in with a pre-release that the line does not name.
            || !package.version.pre.is_empty() && dependency.path.is_some())
}

/// Cargo's resolver 2 and later keep what is built for the host apart. The workspace's manifest says
/// which it is, or else the edition of its root package.
fn splits_host(root: &Path, packages: &[Package]) -> bool {
    let manifest = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap_or_default();
    let Ok(document) = text.parse::<toml_edit::DocumentMut>() else {
        return true;
    };
    let resolver = |table: &str| {
        let item = document.get(table).and_then(|table| table.get("resolver"));
        item.and_then(toml_edit::Item::as_str)
            .map(|resolver| resolver != "1")
    };
    if let Some(splits) = resolver("workspace").or_else(|| resolver("package")) {
        return splits;
    }
    let root = packages
        .iter()
        .find(|package| package.manifest_path.as_std_path() == manifest);
    // A workspace without a root package and without the key has cargo's first resolver.
    root.is_some_and(|package| package.edition >= cargo_metadata::Edition::E2021)
}

impl Target {
    fn of_compiler(triple: Option<&str>) -> Result<Self, Error> {
        let failed = |reason: String| Error::Target {
            target: triple.unwrap_or("the host").to_owned(),
            reason,
        };
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        // One call for the name and the conditions: each start of the compiler costs.
        command.args(["--print", "host-tuple", "--print", "cfg"]);
        if let Some(triple) = triple {
            command.args(["--target", triple]);
        }
        let output = command
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines();
        let host = lines.next().unwrap_or_default().to_owned();
        let cfg = lines.filter_map(|line| line.parse().ok()).collect();
        Ok(Self {
            triple: triple.map_or(host, str::to_owned),
            cfg,
        })
    }
}
