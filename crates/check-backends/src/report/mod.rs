//! What was found, as values, and the forms in which it is shown.

mod github;
mod html;
mod json;
mod markdown;
mod sarif;
mod table;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::catalogue::Backend;
use crate::config::Allowance;
use crate::coverage::Direction;
use crate::error::Error;
use crate::lints::{Level, LintId};
use crate::model::{Dialect, Location};

pub use json::SCHEMA;

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this form.
    pub version: u32,
    /// The version of Burn, where the graph has one.
    pub burn: Option<String>,
    /// The target.
    pub target: String,
    /// The packages that declare ops.
    pub packages: Vec<PackageCoverage>,
    /// What is wrong, and what is worth knowing.
    pub findings: Vec<Finding>,
    /// What would be wrong, were it not allowed in a manifest.
    pub allowed: Vec<Allowance>,
}

/// The coverage of one package.
#[derive(Clone, Debug, Serialize)]
pub struct PackageCoverage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub package_version: String,
    /// What the cells of its ops stand for, in order.
    pub columns: Vec<Column>,
    /// Its ops.
    pub ops: Vec<OpCoverage>,
}

/// A build, and the backends that it is looked at for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The feature of the package, or the backend of the resolved build.
    pub name: String,
    /// The features that were asked for; `None` is the resolved build.
    pub features: Option<Vec<String>>,
    /// The backends.
    pub backends: Vec<Backend>,
}

/// The coverage of one op.
#[derive(Clone, Debug, Serialize)]
pub struct OpCoverage {
    /// Its name.
    pub name: String,
    /// Its type, or its trait.
    pub subject: String,
    /// How it is declared.
    pub dialect: Dialect,
    /// Where.
    pub location: Location,
    /// The functions that are routed.
    pub methods: Vec<String>,
    /// What it has, for each column.
    pub forward: Vec<CellReport>,
    /// As above.
    pub gradient: Vec<CellReport>,
    /// As above.
    pub fusion: Vec<CellReport>,
}

impl OpCoverage {
    /// The cells of one direction.
    pub fn cells(&self, direction: Direction) -> &[CellReport] {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Gradient => &self.gradient,
            Direction::Fusion => &self.fusion,
        }
    }
}

/// What stands in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellReport {
    /// Of what kind it is.
    pub kind: CellKind,
    /// Why it is unsupported, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// The kinds of what stands in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// The build asks for nothing here.
    Off,
    /// An arm written for the backend.
    Kernel,
    /// An arm built from Burn's primitive ops.
    Composite,
    /// Said not to be there.
    Unsupported,
    /// It cannot be told.
    Unknown,
    /// An arm that panics.
    Stub,
    /// Nothing, in a package whose ops nothing reaches.
    Latent,
    /// Nothing.
    Gap,
}

impl CellKind {
    /// The word for it in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "-",
            Self::Kernel => "kernel",
            Self::Composite => "composite",
            Self::Unsupported => "unsupported",
            Self::Unknown => "unknown",
            Self::Stub => "STUB",
            Self::Latent => "latent",
            Self::Gap => "GAP",
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked for.
    pub lint: LintId,
    /// How much it matters here.
    pub level: Level,
    /// The package that it is found in.
    pub package: String,
    /// Whether that is a package of the workspace.
    pub member: bool,
    /// The op; none for what concerns no single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The backends that it concerns.
    pub backends: Vec<Backend>,
    /// The functions that it concerns.
    pub methods: Vec<String>,
    /// The builds in which it is found.
    pub builds: Vec<String>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Why, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to write.
    pub cure: String,
    /// Where.
    pub location: Location,
}

/// What a report stands between in a Markdown file that holds more.
const MARKS: [&str; 2] = ["<!-- check-backends -->", "<!-- /check-backends -->"];

/// A form to show a report in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables and findings, for people.
    Table,
    /// One JSON value.
    Json,
    /// SARIF 2.1.0, for code-scanning services.
    Sarif,
    /// Commands that a GitHub workflow shows beside the lines of a change.
    Github,
    /// Tables for docs.
    Markdown,
    /// One page, with a filter.
    Html,
}

impl Report {
    /// Whether anything was found that fails the check.
    pub fn is_red(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.level == Level::Deny)
    }

    /// Whether a file holds this report, in Markdown (between marks, if it has them) or, where its
    /// name ends so, in JSON.
    ///
    /// # Errors
    ///
    /// [`Error::Read`].
    pub fn is_in(&self, file: &Path) -> Result<bool, Error> {
        let text = std::fs::read_to_string(file).map_err(|source| Error::Read {
            file: file.to_path_buf(),
            source,
        })?;
        let is_json = file
            .extension()
            .is_some_and(|extension| extension == "json");
        let format = if is_json {
            Format::Json
        } else {
            Format::Markdown
        };
        let mut current = Vec::new();
        self.write(format, &mut current)?;
        let marked = text
            .split_once(MARKS[0])
            .and_then(|(_, rest)| rest.split_once(MARKS[1]));
        let held = marked.map_or(text.as_str(), |(held, _)| held);
        Ok(held.trim().as_bytes() == current.trim_ascii())
    }

    /// Shows it.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => table::write(self, out),
            Format::Json => json::write(self, out),
            Format::Sarif => sarif::write(self, out),
            Format::Github => github::write(self, out),
            Format::Markdown => markdown::write(self, out),
            Format::Html => html::write(self, out),
        }
    }
}
