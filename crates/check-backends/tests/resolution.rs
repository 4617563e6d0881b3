//! Features as computed, against those that cargo gives the compiler.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use cargo_check_backends::graph::{Graph, Selection};
use cargo_check_backends::resolve::{Features, resolve};
use common::Copied;

/// For each package, the sets of features that it is built with.
type Sets = BTreeMap<String, BTreeSet<String>>;

fn computed(
    manifest: &Path,
    workspace: bool,
    flags: &[&str],
    features: &Features,
) -> (Sets, BTreeSet<String>) {
    let selection = Selection {
        manifest_path: Some(manifest.to_path_buf()),
        workspace,
        ..Selection::default()
    };
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    let graph = Graph::load(&selection, &flags).unwrap();
    let build = resolve(&graph, &graph.selected, features).unwrap();
    let mut sets = Sets::new();
    let mut for_target = BTreeSet::new();
    for (unit, features) in build.units() {
        let package = &graph.packages[unit.package];
        let features: Vec<&str> = features.iter().map(String::as_str).collect();
        sets.entry(package.id.repr.clone())
            .or_default()
            .insert(features.join(","));
        if !unit.host {
            for_target.insert(package.id.repr.clone());
        }
    }
    (sets, for_target)
}

/// What cargo would have the compiler build. `cargo tree` is no measure: it shows a package that is
/// built twice, for the host and for the target, once.
fn by_cargo(manifest: &Path, workspace: bool, flags: &[&str]) -> Sets {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--unit-graph", "-Z", "unstable-options"]);
    cargo.arg("--manifest-path").arg(manifest).args(flags);
    cargo.env("RUSTC_BOOTSTRAP", "1");
    if workspace {
        cargo.arg("--workspace");
    }
    let output = cargo.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let graph: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut sets = Sets::new();
    for unit in graph["units"].as_array().unwrap() {
        let id = unit["pkg_id"].as_str().unwrap();
        let mut features: Vec<&str> = unit["features"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        features.sort_unstable();
        sets.entry(id.to_owned())
            .or_default()
            .insert(features.join(","));
    }
    sets
}

#[track_caller]
fn agree(manifest: &Path, workspace: bool, flags: &[&str], features: &Features) {
    let (found, for_target) = computed(manifest, workspace, flags, features);
    let expected = by_cargo(manifest, workspace, flags);
    assert!(expected.len() > 1);
    for (package, expected) in &expected {
        let found = found.get(package);
        match workspace {
            // The resolver has a procedural macro that is a member built for the target, too, and
            // all below it; nobody asks the compiler for that.
            true => assert!(
                found.is_some_and(|found| found.is_superset(expected)),
                "{package}"
            ),
            false => assert_eq!(found, Some(expected), "{package} with {flags:?}"),
        }
    }
    // Dependencies of a build script that is not there are resolved, and not built.
    let more: Vec<_> = for_target
        .iter()
        .filter(|package| !expected.contains_key(*package))
        .collect();
    assert!(workspace || more.is_empty(), "only computed: {more:?}");
}

fn named(features: &[&str]) -> Features {
    Features {
        named: features.iter().map(ToString::to_string).collect(),
        ..Features::default()
    }
}

#[test]
fn this_workspace_has_the_features_that_cargo_gives_it() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    agree(&manifest, true, &[], &Features::default());
    let everything = Features {
        all: true,
        ..Features::default()
    };
    agree(&manifest, true, &["--all-features"], &everything);
    let none = Features {
        no_default: true,
        ..Features::default()
    };
    agree(&manifest, true, &["--no-default-features"], &none);
    let some = ["burn-armature/wgpu", "burn-armature/fusion"];
    agree(
        &manifest,
        true,
        &["--features", &some.join(",")],
        &named(&some),
    );
}

#[test]
fn fixtures_have_the_features_that_cargo_gives_them() {
    for (name, side) in [
        ("weak-feature", "gap"),
        ("weak-feature", "cured"),
        ("drift-between-crates", "gap"),
        ("latent", "gap"),
        ("missing-arm", "gap"),
    ] {
        let copied = Copied::new(name, side);
        let manifest = copied.options().selection.manifest_path.unwrap();
        agree(&manifest, false, &["--offline"], &Features::default());
    }
}

/// The trap of burn 0.22.1: `cargo metadata` has burn-core's `autodiff` on, cargo has not.
#[test]
fn burn_has_the_features_that_cargo_gives_it() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = common::user_of_burn(
        folder.path(),
        &["std", "ndarray", "flex", "signal", "vision"],
    );
    agree(&manifest, false, &[], &Features::default());
    let (sets, _) = computed(&manifest, false, &[], &Features::default());
    let core = sets
        .iter()
        .find(|(name, _)| name.contains("#burn-core@"))
        .unwrap();
    assert!(
        core.1
            .iter()
            .all(|features| !features.split(',').any(|one| one == "autodiff"))
    );

    let manifest = common::user_of_burn(
        folder.path(),
        &["std", "cuda", "vulkan", "fusion", "autodiff"],
    );
    agree(&manifest, false, &[], &Features::default());
}
