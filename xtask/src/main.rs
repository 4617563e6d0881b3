//! What a developer of this workspace runs: `cargo xtask --help`.

use std::process::ExitCode;

use cargo_check_backends::cli::{Arguments, CLEAN, TOOL_ERROR};
use clap::{Parser, Subcommand};

mod llvm;
mod suites;

/// Tasks of the Armature workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Says which op lacks an arm on which backend, without building anything.
    CheckBackends(Box<Arguments>),
    /// Runs the tests on every backend that this machine has.
    Test,
    /// Runs clippy and builds the docs, for every set of features.
    Lint,
    /// Makes the LLVM SDK available that the features `cuda` and `cpu` link.
    Llvm,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                TOOL_ERROR.into()
            } else {
                CLEAN.into()
            };
        }
    };
    match cli.task {
        Task::CheckBackends(arguments) => arguments.run(),
        Task::Test => done(suites::test()),
        Task::Lint => done(suites::lint()),
        Task::Llvm => done(llvm::make_available()),
    }
}

fn done<E: std::error::Error>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
