//! What is known of burn 0.22.1's own ops, seen in its released sources.

mod common;

use cargo_check_backends::lints::Level;
use cargo_check_backends::{Finding, Options, Report, check};

fn report(features: &[&str]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.selection.manifest_path = Some(common::user_of_burn(folder.path(), features));
    check(&options).unwrap_or_else(|error| panic!("{error}"))
}

fn red(report: &Report) -> Vec<&Finding> {
    report
        .findings
        .iter()
        .filter(|finding| finding.level == Level::Deny)
        .collect()
}

#[test]
fn eleven_ops_of_four_traits_panic_on_ndarray() {
    let report = report(&["std", "ndarray", "flex", "signal", "vision", "autodiff"]);
    let mut traits = Vec::new();
    let mut ops = 0;
    for finding in red(&report) {
        assert_eq!(finding.lint.name, "missing-arm");
        assert_eq!(
            finding
                .backends
                .iter()
                .map(|one| one.name())
                .collect::<Vec<_>>(),
            ["NdArray"]
        );
        traits.push(finding.op.as_deref().unwrap());
        ops += finding.methods.len();
    }
    traits.sort_unstable();
    assert_eq!(
        traits,
        [
            "BoolVisionOps",
            "FloatVisionOps",
            "IntVisionOps",
            "SignalOps"
        ]
    );
    assert_eq!(ops, 11);
}

#[test]
fn without_ndarray_there_is_no_gap() {
    for features in [
        &["std", "flex", "signal", "vision", "autodiff"][..],
        &["std", "flex", "signal", "vision"],
        &["std", "ndarray", "flex", "linalg"],
        &["std", "vulkan", "signal", "vision", "linalg", "fusion"],
    ] {
        let report = report(features);
        assert!(
            red(&report).is_empty(),
            "{features:?}\n{}",
            common::shown(&report)
        );
    }
}

/// burn-nn depends on burn-linalg without any feature of it.
#[test]
fn ops_that_nothing_reaches_are_latent() {
    let report = report(&["std", "flex"]);
    assert!(red(&report).is_empty());
    let latent: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.lint.name == "latent")
        .collect();
    assert_eq!(latent.len(), 1, "{}", common::shown(&report));
    assert_eq!(latent[0].op.as_deref(), Some("LinalgOps"));
}

/// Every feature of burn's that compiles a backend in, and what may be on beside it.
#[test]
fn the_lattice_in_the_docs_is_what_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = common::user_of_burn(folder.path(), &["std", "signal", "vision", "linalg"]);
    let text = std::fs::read_to_string(&manifest).unwrap();
    let forwarded: Vec<String> = [
        "ndarray", "flex", "cuda", "rocm", "wgpu", "vulkan", "metal", "webgpu", "cpu", "tch",
        "remote", "capture", "autodiff", "fusion",
    ]
    .iter()
    .map(|feature| format!("{feature} = [\"burn/{feature}\"]\n"))
    .collect();
    std::fs::write(
        &manifest,
        format!("{text}\n[features]\n{}", forwarded.concat()),
    )
    .unwrap();

    let mut options = Options {
        each_feature: true,
        ..Options::default()
    };
    options.selection.manifest_path = Some(manifest);
    let mut report = check(&options).unwrap_or_else(|error| panic!("{error}"));
    report.findings.clear();
    let mut tables = Vec::new();
    report
        .write(cargo_check_backends::Format::Markdown, &mut tables)
        .unwrap();

    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/burn-0.22.1.md");
    let docs = std::fs::read_to_string(&file).unwrap();
    let (head, rest) = docs.split_once("<!-- check-backends -->\n").unwrap();
    let (held, tail) = rest.split_once("<!-- /check-backends -->").unwrap();
    let tables = String::from_utf8(tables).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let text = format!("{head}<!-- check-backends -->\n{tables}<!-- /check-backends -->{tail}");
        std::fs::write(&file, text).unwrap();
    } else {
        assert_eq!(held, tables, "UPDATE_DOCS=1 writes it anew");
    }
}
