//! `cargo check-backends`.

use std::process::ExitCode;

use cargo_check_backends::cli::{Arguments, CLEAN, TOOL_ERROR};
use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", version)]
enum Cargo {
    /// Finds the custom Burn ops that lack a backend, without building anything.
    CheckBackends(Arguments),
}

fn main() -> ExitCode {
    // Cargo puts the subcommand's name in front; someone who calls the binary by hand may not.
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments
        .get(1)
        .is_none_or(|first| first != "check-backends")
    {
        arguments.insert(1.min(arguments.len()), "check-backends".into());
    }
    match Cargo::try_parse_from(arguments) {
        Ok(Cargo::CheckBackends(arguments)) => arguments.run(),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() {
                TOOL_ERROR.into()
            } else {
                CLEAN.into()
            }
        }
    }
}
