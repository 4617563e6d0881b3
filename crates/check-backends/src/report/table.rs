//! The report for people: a table for each package, then what was found.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, TableComponent, presets};

use super::{CellKind, Finding, PackageCoverage, Report};
use crate::coverage::Direction;
use crate::lints::{self, Level};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for package in &report.packages {
        write_package(package, out)?;
    }
    for finding in &report.findings {
        write_finding(finding, out)?;
    }
    write_summary(report, out)
}

fn write_package(package: &PackageCoverage, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} {}", package.name, package.package_version)?;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let columns = package.columns.iter().map(|column| column.name.clone());
    table.set_header(["op".to_owned(), String::new()].into_iter().chain(columns));
    for op in &package.ops {
        for direction in Direction::ALL {
            let cells = op.cells(direction);
            if direction != Direction::Forward
                && cells.iter().all(|cell| cell.kind == CellKind::Off)
            {
                continue;
            }
            let name = match direction {
                Direction::Forward => op.name.as_str(),
                _ => "",
            };
            let words = cells.iter().map(|cell| cell.kind.word());
            table.add_row([name, direction.name()].into_iter().chain(words));
        }
    }
    writeln!(out, "{table}\n")
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let level = match finding.level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note | Level::Allow => "note",
    };
    let location = &finding.location;
    writeln!(out, "{level}[{}]: {}", finding.lint, finding.message)?;
    writeln!(
        out,
        "  --> {}:{}:{}",
        location.file, location.line, location.column
    )?;
    if let Some(cause) = &finding.cause {
        writeln!(out, "  cause: {cause}")?;
    }
    let mut lines = finding.cure.lines();
    writeln!(out, "  cure: {}", lines.next().unwrap_or_default())?;
    for line in lines {
        writeln!(out, "    {line}")?;
    }
    writeln!(out)
}

fn write_summary(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let ops: usize = report
        .packages
        .iter()
        .map(|package| package.ops.len())
        .sum();
    let count = |level| {
        report
            .findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    let (errors, warnings) = (count(Level::Deny), count(Level::Warn));
    let unknown = report
        .findings
        .iter()
        .any(|finding| finding.lint == lints::UNKNOWN);
    let state = match (errors, unknown) {
        (0, false) => "no gap",
        (0, true) => "no gap seen, and not all could be told",
        _ => "not sound",
    };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    for allowance in &report.allowed {
        writeln!(out, "allowed: {} ({})", allowance.lint, allowance.reason)?;
    }
    writeln!(
        out,
        "{ops} op{} in {} package{}: {state} ({errors} error{}, {warnings} warning{})",
        plural(ops),
        report.packages.len(),
        plural(report.packages.len()),
        plural(errors),
        plural(warnings),
    )
}
