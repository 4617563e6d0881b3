//! The report as JSON.

use std::io::{self, Write};

use super::Report;

/// The version of the form, raised with every change that a reader could trip over.
pub const SCHEMA: u32 = 1;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}
