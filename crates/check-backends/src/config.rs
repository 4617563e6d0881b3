//! What a workspace says about this tool in its manifests: levels of lints, and allowances.
//!
//! ```toml
//! [workspace.metadata.check-backends]
//! lints = { missing-autodiff = "warn" }
//!
//! [[workspace.metadata.check-backends.allow]]
//! lint = "missing-arm"
//! package = "burn-signal"
//! op = "SignalOps"
//! backends = ["NdArray"]
//! reason = "signals are transformed on Flex alone"
//! ```
//!
//! `[package.metadata.check-backends]` says the same about one package.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::graph::Graph;
use crate::lints::{self, Level, LintId};
use crate::model::Location;
use crate::report::Finding;

/// The key in `metadata`.
const KEY: &str = "check-backends";

/// One table of a manifest.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    lints: BTreeMap<String, Level>,
    #[serde(default)]
    allow: Vec<Allowance>,
}

/// A finding that is known, and why it may stay.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// The lint.
    pub lint: String,
    /// The package that it is found in; else any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The op; else any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The backends; else any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<String>,
    /// Why.
    pub reason: String,
}

/// What all manifests of a workspace say.
#[derive(Debug, Default)]
pub(crate) struct Config {
    levels: Vec<(Scope, LintId, Level)>,
    allowances: Vec<(Scope, Allowance)>,
}

/// The manifest that says it, and the package that it is about.
#[derive(Clone, Debug)]
struct Scope {
    manifest: Location,
    package: Option<String>,
}

impl Config {
    /// Reads the manifests of a workspace.
    pub(crate) fn read(graph: &Graph) -> Result<Self, Error> {
        let mut config = Self::default();
        let root = graph.root.join("Cargo.toml");
        config.add(
            &graph.metadata,
            Scope {
                manifest: at(graph, &root),
                package: None,
            },
        )?;
        for member in &graph.members {
            let package = &graph.packages[*member];
            let manifest = at(graph, package.manifest_path.as_std_path());
            let scope = Scope {
                manifest,
                package: Some(package.name.to_string()),
            };
            config.add(&package.metadata, scope)?;
        }
        Ok(config)
    }

    fn add(&mut self, metadata: &serde_json::Value, scope: Scope) -> Result<(), Error> {
        let Some(table) = metadata.get(KEY) else {
            return Ok(());
        };
        let failed = |reason: String| Error::Config {
            file: scope.manifest.file.clone(),
            reason,
        };
        let table = Table::deserialize(table).map_err(|error| failed(error.to_string()))?;
        for (name, level) in table.lints {
            self.levels
                .push((scope.clone(), name.parse().map_err(failed)?, level));
        }
        for allowance in table.allow {
            allowance.lint.parse::<LintId>().map_err(failed)?;
            if allowance.reason.trim().is_empty() {
                return Err(failed(format!(
                    "the allowance of {} gives no reason",
                    allowance.lint
                )));
            }
            self.allowances.push((scope.clone(), allowance));
        }
        Ok(())
    }

    /// Sets levels, takes out what is allowed, and adds what is allowed and not there.
    pub(crate) fn apply(&self, findings: &mut Vec<Finding>) -> Vec<Allowance> {
        for finding in findings.iter_mut() {
            for (scope, lint, level) in &self.levels {
                if *lint == finding.lint && scope.covers(finding) {
                    finding.level = *level;
                }
            }
        }
        let mut used = Vec::new();
        let mut stale = Vec::new();
        for (scope, allowance) in &self.allowances {
            let before = findings.len();
            findings.retain(|finding| !(scope.covers(finding) && allowance.covers(finding)));
            match findings.len() < before {
                true => used.push(allowance.clone()),
                false => stale.push(scope.stale(allowance)),
            }
        }
        findings.extend(stale);
        used
    }
}

impl Scope {
    fn covers(&self, finding: &Finding) -> bool {
        self.package
            .as_ref()
            .is_none_or(|package| *package == finding.package)
    }

    fn stale(&self, allowance: &Allowance) -> Finding {
        Finding {
            lint: lints::STALE_ALLOWANCE,
            level: lints::STALE_ALLOWANCE.level,
            package: self.package.clone().unwrap_or_default(),
            member: true,
            op: allowance.op.clone(),
            backends: Vec::new(),
            methods: Vec::new(),
            builds: Vec::new(),
            message: format!(
                "nothing is found that the allowance of {} covers",
                allowance.lint
            ),
            cause: Some(format!("its reason was: {}", allowance.reason)),
            cure: "remove the allowance, or correct what it names".to_owned(),
            location: self.manifest.clone(),
        }
    }
}

impl Allowance {
    fn covers(&self, finding: &Finding) -> bool {
        let is = |given: &Option<String>, found: Option<&String>| {
            given.as_ref().is_none_or(|given| Some(given) == found)
        };
        let covered = |backend: &crate::catalogue::Backend| {
            self.backends.iter().any(|name| name == backend.name())
        };
        finding.lint.name == self.lint
            && is(&self.package, Some(&finding.package))
            && is(&self.op, finding.op.as_ref())
            && (self.backends.is_empty() || finding.backends.iter().all(covered))
    }
}

/// Where a manifest names this tool.
fn at(graph: &Graph, manifest: &std::path::Path) -> Location {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let line = text
        .lines()
        .position(|line| line.contains(KEY))
        .map_or(1, |index| index + 1);
    let file = manifest.strip_prefix(&graph.root).unwrap_or(manifest);
    Location {
        file: file.to_string_lossy().replace('\\', "/"),
        line,
        column: 1,
        end_line: line,
        end_column: 1,
        path: manifest.to_path_buf(),
    }
}
