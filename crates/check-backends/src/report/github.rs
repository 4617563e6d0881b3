//! Findings as commands that a GitHub workflow shows beside the lines of a change.

use std::io::{self, Write};

use super::{Finding, Report};
use crate::lints::Level;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    report
        .findings
        .iter()
        .try_for_each(|finding| write_finding(finding, out))
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let command = match finding.level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note | Level::Allow => "notice",
    };
    let location = &finding.location;
    let title = property(&format!("check-backends: {}", finding.lint));
    // A dependency's files are not part of the change: the place is told in words.
    let place = match finding.member {
        true => format!(
            "file={},line={},col={},endLine={},",
            property(&location.file),
            location.line,
            location.column,
            location.end_line.max(location.line),
        ),
        false => String::new(),
    };
    let mut text = finding.message.clone();
    if !finding.member {
        text.push_str(&format!(" ({}:{})", location.file, location.line));
    }
    if let Some(cause) = &finding.cause {
        text.push_str(&format!("\ncause: {cause}"));
    }
    text.push_str(&format!("\ncure: {}", finding.cure));
    writeln!(out, "::{command} {place}title={title}::{}", data(&text))
}

/// What stands behind the command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A value in front of it.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
