//! Why the tool could not do its work.

use std::io;
use std::path::PathBuf;

use semver::Version;

/// Why the tool could not do its work. Every text ends with what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Cargo could not say what the workspace is made of.
    #[error(
        "cargo rejects the workspace; see its message, and run `cargo metadata` to try again\n{0}"
    )]
    Metadata(#[source] Box<cargo_metadata::Error>),
    /// `cargo metadata` left out what only a caller who asks for less leaves out.
    #[error("`cargo metadata` gave no dependency graph; update cargo to a version that does")]
    NoGraph,
    /// The compiler could not say what it sets for the target.
    #[error("`rustc --print cfg` failed for {target}: {reason}; check the name of the target")]
    Target {
        /// The target, or the host.
        target: String,
        /// What went wrong.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}; make the file readable, and UTF-8, or remove what refers to it", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the workspace is not Rust.
    #[error("{file}:{line}: cannot parse this: {reason}; `cargo check` tells more")]
    Parse {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// A file of the workspace that is part of the build could not be read.
    #[error("{place}: {reason}")]
    Source {
        /// Where it is declared.
        place: String,
        /// What went wrong with it.
        reason: String,
    },
    /// What a manifest says about this tool makes no sense.
    #[error(
        "{file}: [metadata.check-backends]: {reason}; its module `config` shows what it may hold"
    )]
    Config {
        /// The manifest.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A package that was asked for is not there.
    #[error("no package `{name}` in the workspace; it has {known}")]
    NoPackage {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A feature that was asked for is not there.
    #[error("no selected package has the feature `{feature}`; see [features] in its manifest")]
    NoFeature {
        /// What was asked for.
        feature: String,
    },
    /// The graph has a Burn that this tool has no catalogue for.
    #[error(
        "burn {version} is not known to this tool, which knows burn {known}; use one of those, or \
         update cargo-check-backends"
    )]
    UnknownBurn {
        /// The version found.
        version: Version,
        /// The versions known.
        known: String,
    },
    /// A report could not be written.
    #[error("cannot write the report: {0}; check that the output is open and has room")]
    Write(#[from] io::Error),
}

impl From<cargo_metadata::Error> for Error {
    fn from(error: cargo_metadata::Error) -> Self {
        Self::Metadata(Box::new(error))
    }
}
