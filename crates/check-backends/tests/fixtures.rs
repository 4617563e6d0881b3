//! Every fixture with a gap in it, as the report shows it, and its cured mirror image.

mod common;

use cargo_check_backends::lints::Level;
use common::{Copied, fixtures, shown};

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "stand-ins")
        .collect();
    names.sort();
    names
}

#[test]
fn every_gap_is_reported() {
    for name in names() {
        let report = Copied::new(&name, "gap").check();
        assert!(!report.findings.is_empty(), "{name}: nothing was found");
        insta::assert_snapshot!(name, shown(&report));
    }
}

#[test]
fn every_cure_is_silent() {
    for name in names() {
        let report = Copied::new(&name, "cured").check();
        let loud = report
            .findings
            .iter()
            .filter(|finding| finding.level > Level::Note);
        assert_eq!(loud.count(), 0, "{name}:\n{}", shown(&report));
    }
}

/// The cured side is not silent here: it says, without failing, what nothing reaches.
#[test]
fn what_nothing_reaches_is_a_note() {
    let report = Copied::new("latent", "cured").check();
    assert!(!report.is_red());
    insta::assert_snapshot!("latent-cured", shown(&report));
}
