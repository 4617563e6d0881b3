//! Levels and allowances, as manifests and the command line give them.

mod common;

use std::fs;

use cargo_check_backends::lints::{Level, LintId};
use cargo_check_backends::{Report, check};
use common::{Copied, shown};

/// A gap on NdArray, with this at the end of the manifest.
fn with(table: &str) -> Result<Report, cargo_check_backends::Error> {
    let copied = Copied::new("extension-not-listed", "gap");
    let manifest = copied.file("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{text}\n{table}")).unwrap();
    check(&copied.options())
}

fn lints(report: &Report) -> Vec<(&str, Level)> {
    report
        .findings
        .iter()
        .map(|finding| (finding.lint.name, finding.level))
        .collect()
}

#[test]
fn an_allowance_takes_the_finding_it_names_and_no_other() {
    let report = with(
        "[[package.metadata.check-backends.allow]]\nlint = \"missing-arm\"\nop = \"Ops\"\n\
         backends = [\"NdArray\"]\nreason = \"never called there\"",
    )
    .unwrap();
    assert!(report.findings.is_empty(), "{}", shown(&report));
    assert_eq!(report.allowed[0].reason, "never called there");

    let report = with(
        "[[workspace.metadata.check-backends.allow]]\nlint = \"missing-arm\"\n\
         backends = [\"Flex\"]\nreason = \"another backend\"",
    )
    .unwrap();
    assert_eq!(
        lints(&report),
        [
            ("missing-arm", Level::Deny),
            ("stale-allowance", Level::Warn)
        ]
    );
    assert_eq!(report.findings[1].location.line, 11);
}

#[test]
fn levels_come_from_manifests_and_the_caller_has_the_last_word() {
    let table = "[package.metadata.check-backends.lints]\nmissing-arm = \"warn\"";
    let report = with(table).unwrap();
    assert_eq!(lints(&report), [("missing-arm", Level::Warn)]);
    assert!(!report.is_red());

    let copied = Copied::new("extension-not-listed", "gap");
    let mut options = copied.options();
    options.levels = vec![("missing-arm".parse::<LintId>().unwrap(), Level::Allow)];
    assert!(check(&options).unwrap().findings.is_empty());
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() {
    for (table, expected) in [
        (
            "[package.metadata.check-backends]\nlint = {}",
            "unknown field `lint`",
        ),
        (
            "[package.metadata.check-backends.lints]\nmissing = \"warn\"",
            "no lint `missing`",
        ),
        (
            "[package.metadata.check-backends.lints]\nlatent = \"loud\"",
            "unknown variant `loud`",
        ),
        (
            "[[package.metadata.check-backends.allow]]\nlint = \"latent\"",
            "missing field `reason`",
        ),
        (
            "[[package.metadata.check-backends.allow]]\nlint = \"latent\"\nreason = \" \"",
            "gives no reason",
        ),
    ] {
        let error = with(table).unwrap_err().to_string();
        assert!(
            error.starts_with("Cargo.toml:") && error.contains(expected),
            "{error}"
        );
    }
}
