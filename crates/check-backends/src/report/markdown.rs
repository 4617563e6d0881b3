//! The coverage as a Markdown table, for docs.

use std::io::{self, Write};

use super::{CellKind, PackageCoverage, Report};
use crate::coverage::Direction;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (index, package) in report.packages.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write_package(package, out)?;
    }
    if !report.findings.is_empty() {
        writeln!(out)?;
    }
    for finding in &report.findings {
        let location = &finding.location;
        writeln!(
            out,
            "- **{}** `{}:{}`: {}. Cure: {}",
            finding.lint,
            location.file,
            location.line,
            finding.message,
            finding.cure.replace('\n', " "),
        )?;
    }
    Ok(())
}

fn write_package(package: &PackageCoverage, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "### {} {}\n", package.name, package.package_version)?;
    let names: Vec<&str> = package
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    writeln!(out, "| op | | {} |", names.join(" | "))?;
    writeln!(out, "|---|---|{}", "---|".repeat(names.len()))?;
    for op in &package.ops {
        for direction in Direction::ALL {
            let cells = op.cells(direction);
            let asked = cells.iter().any(|cell| cell.kind != CellKind::Off);
            if direction != Direction::Forward && !asked {
                continue;
            }
            let name = match direction {
                Direction::Forward => format!("`{}`", op.name),
                _ => String::new(),
            };
            let cells: Vec<String> = cells
                .iter()
                .map(|cell| match cell.kind {
                    CellKind::Gap | CellKind::Stub => format!("**{}**", cell.kind.word()),
                    kind => kind.word().to_owned(),
                })
                .collect();
            writeln!(
                out,
                "| {name} | {} | {} |",
                direction.name(),
                cells.join(" | ")
            )?;
        }
    }
    Ok(())
}
