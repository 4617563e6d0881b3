//! The coverage as one page that needs nothing else: a matrix, a filter, and what was found.

use std::io::{self, Write};

use super::{CellKind, CellReport, Finding, OpCoverage, PackageCoverage, Report};
use crate::coverage::Direction;
use crate::lints::Level;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Backends of custom ops</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<header>\n<h1>Backends of custom ops</h1>",
        include_str!("page.css")
    )?;
    let burn = report
        .burn
        .as_ref()
        .map(|burn| format!("burn {}, ", escaped(burn)));
    writeln!(
        out,
        "<p>{}{}</p>",
        burn.unwrap_or_default(),
        escaped(&report.target)
    )?;
    writeln!(
        out,
        "<p><label>Filter <input id=\"filter\" type=\"search\" placeholder=\"op, package or \
         kind\"></label></p>\n</header>\n<main>"
    )?;
    for package in &report.packages {
        write_package(package, out)?;
    }
    if !report.findings.is_empty() {
        writeln!(out, "<h2>Findings</h2>\n<ul class=\"findings\">")?;
        for finding in &report.findings {
            write_finding(finding, out)?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(
        out,
        "</main>\n<script>\n{}</script>\n</body>\n</html>",
        include_str!("page.js")
    )
}

fn write_package(package: &PackageCoverage, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section>\n<h2>{} {}</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">op\
         </th><th scope=\"col\"></th>",
        escaped(&package.name),
        escaped(&package.package_version)
    )?;
    for column in &package.columns {
        write!(out, "<th scope=\"col\">{}</th>", escaped(&column.name))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for op in &package.ops {
        write_op(op, &package.name, out)?;
    }
    writeln!(out, "</tbody>\n</table></div>\n</section>")
}

fn write_op(op: &OpCoverage, package: &str, out: &mut dyn Write) -> io::Result<()> {
    for direction in Direction::ALL {
        let cells = op.cells(direction);
        let asked = cells.iter().any(|cell| cell.kind != CellKind::Off);
        if direction != Direction::Forward && !asked {
            continue;
        }
        let mut kinds: Vec<&str> = cells.iter().map(|cell| cell.kind.word()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let about = format!(
            "{package} {} {} {}",
            op.name,
            op.methods.join(" "),
            kinds.join(" ")
        );
        write!(
            out,
            "<tr data-about=\"{}\"><th scope=\"row\" title=\"{}:{}\">{}</th><td>{}</td>",
            escaped(&about.to_lowercase()),
            escaped(&op.location.file),
            op.location.line,
            escaped(&op.name),
            direction.name()
        )?;
        for cell in cells {
            write_cell(cell, out)?;
        }
        writeln!(out, "</tr>")?;
    }
    Ok(())
}

fn write_cell(cell: &CellReport, out: &mut dyn Write) -> io::Result<()> {
    let mut about = Vec::new();
    about.extend(cell.reason.clone());
    about.extend(
        cell.location
            .as_ref()
            .map(|place| format!("{}:{}", place.file, place.line)),
    );
    let word = cell.kind.word();
    let class = if cell.kind == CellKind::Off {
        "off".to_owned()
    } else {
        word.to_lowercase()
    };
    match about.is_empty() {
        true => write!(out, "<td class=\"{class}\">{word}</td>"),
        // What a pointer shows on hovering, a tap opens.
        false => write!(
            out,
            "<td class=\"{class}\"><details><summary>{word}</summary>{}</details></td>",
            escaped(&about.join(", "))
        ),
    }
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let level = match finding.level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note | Level::Allow => "note",
    };
    let about = format!("{} {} {}", finding.package, finding.lint, finding.message);
    writeln!(
        out,
        "<li class=\"{level}\" data-about=\"{}\"><strong>{level}: {}</strong> <code>{}:{}</code>\
         <p>{}</p>",
        escaped(&about.to_lowercase()),
        finding.lint,
        escaped(&finding.location.file),
        finding.location.line,
        escaped(&finding.message)
    )?;
    if let Some(cause) = &finding.cause {
        writeln!(out, "<p>{}</p>", escaped(cause))?;
    }
    writeln!(out, "<pre>{}</pre></li>", escaped(&finding.cure))
}

fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for each in text.chars() {
        match each {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            other => written.push(other),
        }
    }
    written
}
