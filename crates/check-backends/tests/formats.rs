//! The forms of a report, and the command line.

mod common;

use std::process::{Command, Output};

use cargo_check_backends::Format;
use common::Copied;

fn written(name: &str, format: Format) -> String {
    let report = Copied::new(name, "gap").check();
    let mut text = Vec::new();
    report.write(format, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    // Whatever the machine, and the version of this tool.
    text.replace(&report.target, "TARGET")
        .replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[test]
fn json() {
    insta::assert_snapshot!(written("missing-arm", Format::Json));
}

#[test]
fn sarif() {
    insta::assert_snapshot!(written("missing-arm", Format::Sarif));
}

#[test]
fn github() {
    insta::assert_snapshot!(written("drift-between-crates", Format::Github));
    insta::assert_snapshot!(written("missing-gradient", Format::Github));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(written("missing-gradient", Format::Markdown));
}

#[test]
fn html_is_whole_and_needs_nothing_else() {
    let page = written("stub-arm", Format::Html);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("<td class=\"stub\">"));
    // What comes from sources is text, not markup.
    assert!(page.contains("unsupported(&quot;reason&quot;)"));
}

fn command(copied: &Copied, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-check-backends"));
    command
        .env_remove("GITHUB_ACTIONS")
        .arg("check-backends")
        .args(arguments);
    command
        .arg("--offline")
        .arg("--manifest-path")
        .arg(copied.file("Cargo.toml"));
    command.output().unwrap()
}

#[test]
fn the_exit_code_tells_clean_from_findings_from_failure() {
    let gap = Copied::new("missing-arm", "gap");
    assert_eq!(command(&gap, &[]).status.code(), Some(100));
    assert_eq!(
        command(&gap, &["--allow", "missing-arm"]).status.code(),
        Some(0)
    );
    assert_eq!(
        command(&gap, &["--no-default-features"]).status.code(),
        Some(0)
    );
    assert_eq!(
        command(&gap, &["--features", "ndarray"]).status.code(),
        Some(100)
    );
    assert_eq!(
        command(&Copied::new("missing-arm", "cured"), &[])
            .status
            .code(),
        Some(0)
    );

    for arguments in [
        &["--features", "no-such-feature"][..],
        &["--package", "no-such-package"],
        &["--target", "no-such-target"],
        &["--no-such-flag"],
        &["--deny", "no-such-lint"],
    ] {
        let output = command(&gap, arguments);
        assert_eq!(output.status.code(), Some(101), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
    }
}

#[test]
fn sources_that_cannot_be_read_are_named() {
    let copied = Copied::new("missing-arm", "cured");
    let root = copied.file("src/lib.rs");
    let text = std::fs::read_to_string(&root).unwrap();

    std::fs::write(&root, format!("{text}\nmod gone;\n")).unwrap();
    let output = command(&copied, &[]);
    assert_eq!(output.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&output.stderr).contains("src/lib.rs:"));

    // Behind a condition that is off, nothing has to be there.
    std::fs::write(&root, format!("{text}\n#[cfg(windows)]\nmod gone;\n")).unwrap();
    assert_eq!(
        command(&copied, &["--target", "x86_64-unknown-linux-gnu"])
            .status
            .code(),
        Some(0)
    );

    std::fs::write(&root, format!("{text}\nfn (")).unwrap();
    let output = command(&copied, &[]);
    assert_eq!(output.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&output.stderr).contains("src/lib.rs:"));

    std::fs::write(&root, [text.as_bytes(), b"\n// \xff\n"].concat()).unwrap();
    let output = command(&copied, &[]);
    assert_eq!(output.status.code(), Some(101));
    assert!(String::from_utf8_lossy(&output.stderr).contains("UTF-8"));

    let deep = format!(
        "{text}\nconst _: () = {}{};\n",
        "(".repeat(5000),
        ")".repeat(5000)
    );
    std::fs::write(&root, deep).unwrap();
    let output = command(&copied, &[]);
    assert_eq!(
        output.status.code(),
        Some(101),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_file_that_holds_the_report_is_held_against_it() {
    let copied = Copied::new("missing-arm", "cured");
    let table = command(&copied, &["--format", "markdown"]).stdout;
    let file = copied.file("table.md");
    let holds = |text: &[u8]| {
        std::fs::write(&file, text).unwrap();
        command(&copied, &["--check", file.to_str().unwrap()])
            .status
            .code()
    };
    assert_eq!(holds(&table), Some(0));
    let marked = [
        b"# Readme\n\n<!-- check-backends -->\n",
        &table[..],
        b"<!-- /check-backends -->\nmore\n",
    ];
    assert_eq!(holds(&marked.concat()), Some(0));
    let table = String::from_utf8(table).unwrap();
    assert_eq!(
        holds(table.replacen("kernel", "composite", 1).as_bytes()),
        Some(100)
    );
}

#[test]
fn a_burn_without_the_macro_is_an_error_that_names_those_with_it() {
    let copied = Copied::new("no-ops", "gap");
    let manifest = copied.file("../../stand-ins/burn-core/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("0.22.1", "0.21.0")).unwrap();
    let output = command(&copied, &[]);
    assert_eq!(output.status.code(), Some(101));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("burn 0.21.0") && text.contains("knows burn 0.22.0-pre.1"),
        "{text}"
    );
}
