//! Findings as SARIF 2.1.0, which code-scanning services read.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Finding, Report};
use crate::lints::{LINTS, Level};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<Value> = LINTS
        .iter()
        .map(|lint| {
            json!({
                "id": lint.name,
                "shortDescription": { "text": lint.finds },
                "help": { "text": lint.explains },
                "defaultConfiguration": { "level": level(lint.level) },
            })
        })
        .collect();
    let log = json!({
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "cargo-check-backends",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                },
            },
            "columnKind": "unicodeCodePoints",
            "results": report.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note => "note",
        Level::Allow => "none",
    }
}

fn result(finding: &Finding) -> Value {
    let location = &finding.location;
    let mut text = finding.message.clone();
    if let Some(cause) = &finding.cause {
        text.push_str(&format!("\nCause: {cause}"));
    }
    text.push_str(&format!("\nCure: {}", finding.cure));
    // Dependencies lie outside of what is scanned; their folder has no fixed place.
    let base = if finding.member {
        "SRCROOT"
    } else {
        "DEPENDENCIES"
    };
    let mut region = json!({ "startLine": location.line, "startColumn": location.column });
    if location.end_line >= location.line {
        region["endLine"] = location.end_line.into();
        region["endColumn"] = location.end_column.into();
    }
    json!({
        "ruleId": finding.lint.name,
        "ruleIndex": LINTS.iter().position(|lint| lint.name == finding.lint.name),
        "level": level(finding.level),
        "message": { "text": text },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": uri(&location.file), "uriBaseId": base },
                "region": region,
            },
        }],
    })
}

/// A path as a relative reference.
fn uri(path: &str) -> String {
    let mut written = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'+' => {
                written.push(char::from(byte));
            }
            other => written.push_str(&format!("%{other:02X}")),
        }
    }
    written
}
