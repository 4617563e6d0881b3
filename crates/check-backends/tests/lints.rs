//! The page of lints is that of the table, and each lint has its fixture.

use std::path::Path;

use cargo_check_backends::lints::{LINTS, Level};

#[test]
fn the_page_of_lints_is_that_of_the_table() {
    let mut page = String::from(
        "# Lints\n\nWhat `cargo check-backends` looks for. A level is changed with `--allow`, `--warn` and \
         `--deny`, or in a manifest (see the module `config`); findings at *deny* fail the check.\n\n\
         | lint | level | finds | cure |\n|---|---|---|---|\n",
    );
    for lint in LINTS {
        let level = match lint.level {
            Level::Allow => "allow",
            Level::Note => "note",
            Level::Warn => "warn",
            Level::Deny => "deny",
        };
        page.push_str(&format!(
            "| `{}` | {level} | {} | {} |\n",
            lint.name, lint.finds, lint.explains
        ));
    }
    page.push_str(
        "\nEach has a fixture in `tests/fixtures`, beside its cured mirror image; what it looks like in a \
         report is in `tests/snapshots`.\n",
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("LINTS.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        page,
        "UPDATE_DOCS=1 writes it anew"
    );
}

#[test]
fn every_lint_is_seen_in_a_fixture() {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let mut all = String::new();
    for entry in std::fs::read_dir(snapshots).unwrap() {
        all.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    for lint in LINTS {
        // An allowance needs a manifest that has one: see tests/config.rs.
        if lint.name != "stale-allowance" {
            assert!(all.contains(&format!("[{}]:", lint.name)), "{}", lint.name);
        }
    }
}
