//! Finds the custom [Burn](https://burn.dev) ops that lack a backend, without building anything.
//!
//! Goes in: the dependency graph that cargo resolves, and the sources of the packages in it that
//! declare ops, with Armature's `arms!` or Burn's `#[backend_extension]`. Comes out: a [`Report`],
//! with the coverage of each op (which arm it has on each backend of each build that is looked at),
//! and findings, each with its place, its cause and its cure.
//!
//! ```no_run
//! use cargo_check_backends::{Format, Options, check};
//!
//! let report = check(&Options::default())?;
//! report.write(Format::Table, &mut std::io::stdout())?;
//! std::process::exit(if report.is_red() { 100 } else { 0 });
//! # Ok::<(), cargo_check_backends::Error>(())
//! ```

pub mod catalogue;
pub mod cfg;
mod check;
pub mod cli;
pub mod config;
pub mod coverage;
mod error;
mod findings;
pub mod graph;
pub mod lints;
pub mod model;
pub mod report;
pub mod resolve;
pub mod sources;

pub use check::{Options, check};
pub use error::Error;
pub use report::{Finding, Format, Report};
