//! The command line, for the `cargo check-backends` command and for anybody's own xtask.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::check::{Options, check};
use crate::graph::Selection;
use crate::lints::{Level, LintId};
use crate::report::Format;
use crate::resolve::Features;

/// Nothing that fails the check was found.
pub const CLEAN: u8 = 0;
/// Something was.
pub const FINDINGS: u8 = 100;
/// The tool could not do its work.
pub const TOOL_ERROR: u8 = 101;

/// Finds the custom ops that lack a backend, without building anything.
///
/// Exits with 0 where nothing is wrong, 100 where something is, and 101 where the check could not be
/// done.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Arguments {
    /// The manifest to start from.
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,
    /// The packages to build; else cargo's choice.
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// All packages of the workspace.
    #[arg(long)]
    workspace: bool,
    /// The features to build with, separated by commas or spaces.
    #[arg(short = 'F', long, value_delimiter = ',', value_name = "FEATURES")]
    features: Vec<String>,
    /// All features of the packages.
    #[arg(long)]
    all_features: bool,
    /// None of the default features.
    #[arg(long)]
    no_default_features: bool,
    /// Look at every backend feature, alone and together.
    #[arg(long)]
    each_feature: bool,
    /// The target to build for; else the host.
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Read tests, examples and benches too, with the features that they bring.
    #[arg(long)]
    tests: bool,
    /// Leave dependencies' ops out.
    #[arg(long)]
    workspace_only: bool,
    /// The form of the report.
    ///
    /// Left out, it is `table`, followed in a GitHub workflow by `github`.
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Format>,
    /// Fail where this file, a report in Markdown or JSON, is not what would be written now.
    ///
    /// A Markdown file may hold more: what is held against the report then stands between the lines
    /// `<!-- check-backends -->` and `<!-- /check-backends -->`.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Do not show this.
    #[arg(short = 'A', long, value_name = "LINT")]
    allow: Vec<LintId>,
    /// Show this, without failing.
    #[arg(short = 'W', long, value_name = "LINT")]
    warn: Vec<LintId>,
    /// Fail on this.
    #[arg(short = 'D', long, value_name = "LINT")]
    deny: Vec<LintId>,
    /// Passed to cargo: the lock file must be there, and up to date.
    #[arg(long)]
    locked: bool,
    /// Passed to cargo: nothing is fetched.
    #[arg(long)]
    offline: bool,
}

impl Arguments {
    /// What is asked for.
    pub fn options(&self) -> Options {
        let named: Vec<String> = self
            .features
            .iter()
            .flat_map(|features| features.split_whitespace())
            .map(str::to_owned)
            .collect();
        let default = named.is_empty() && !self.all_features && !self.no_default_features;
        let features = (!default).then_some(Features {
            named,
            all: self.all_features,
            no_default: self.no_default_features,
        });
        let flags = [("--locked", self.locked), ("--offline", self.offline)];
        let levels = [
            (Level::Allow, &self.allow),
            (Level::Warn, &self.warn),
            (Level::Deny, &self.deny),
        ];
        Options {
            selection: Selection {
                manifest_path: self.manifest_path.clone(),
                packages: self.package.clone(),
                workspace: self.workspace,
                target: self.target.clone(),
                tests: self.tests,
                cargo_flags: flags
                    .into_iter()
                    .filter(|(_, on)| *on)
                    .map(|(flag, _)| flag.to_owned())
                    .collect(),
            },
            features,
            each_feature: self.each_feature,
            workspace_only: self.workspace_only,
            levels: levels
                .into_iter()
                .flat_map(|(level, lints)| lints.iter().map(move |lint| (*lint, level)))
                .collect(),
        }
    }

    /// Checks, and shows the report on standard output.
    pub fn run(&self) -> ExitCode {
        let in_workflow = std::env::var_os("GITHUB_ACTIONS").is_some_and(|set| set == "true");
        let formats = match self.format {
            Some(format) => vec![format],
            None if in_workflow => vec![Format::Table, Format::Github],
            None => vec![Format::Table],
        };
        let shown = check(&self.options()).and_then(|report| {
            let mut out = io::stdout().lock();
            for format in formats {
                report.write(format, &mut out)?;
            }
            out.flush()?;
            let current = self
                .check
                .as_deref()
                .map_or(Ok(true), |file| report.is_in(file))?;
            Ok((report, current))
        });
        if let (Ok((_, false)), Some(file)) = (&shown, &self.check) {
            eprintln!(
                "error: {} is not what the check finds; write it anew",
                file.display()
            );
        }
        match shown {
            Ok((report, current)) if report.is_red() || !current => FINDINGS.into(),
            Ok(_) => CLEAN.into(),
            Err(error) => {
                eprintln!("error: {error}");
                TOOL_ERROR.into()
            }
        }
    }
}
