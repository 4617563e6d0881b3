//! Copies of fixtures, and checks of them.

#![allow(dead_code)] // Each test file uses its part.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_check_backends::{Options, Report, check};

/// A copy of a fixture in a folder of its own, which a test may change.
pub(crate) struct Copied {
    folder: tempfile::TempDir,
    manifest: PathBuf,
}

/// The fixtures' folder.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

impl Copied {
    /// Copies `fixtures/{name}/{side}`, with the stand-ins for Burn beside it.
    pub(crate) fn new(name: &str, side: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(
            &fixtures().join("stand-ins"),
            &folder.path().join("stand-ins"),
        );
        let root = folder.path().join(name).join(side);
        copy(&fixtures().join(name).join(side), &root);
        // Fixtures of several packages have the one that is built in `app`.
        let manifest = match root.join("app").is_dir() {
            true => root.join("app/Cargo.toml"),
            false => root.join("Cargo.toml"),
        };
        Self { folder, manifest }
    }

    /// A file of the copy.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.manifest.parent().unwrap().join(path)
    }

    /// What to check, and nothing from the network.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        options.selection.manifest_path = Some(self.manifest.clone());
        options.selection.cargo_flags = vec!["--offline".to_owned()];
        options
    }

    /// Checks the copy.
    pub(crate) fn check(&self) -> Report {
        check(&self.options()).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
}

/// A report as the table shows it, whatever the machine.
pub(crate) fn shown(report: &Report) -> String {
    let mut text = Vec::new();
    report
        .write(cargo_check_backends::Format::Table, &mut text)
        .unwrap();
    String::from_utf8(text).unwrap()
}

/// A package that depends on the burn of this workspace, with these features.
pub(crate) fn user_of_burn(folder: &Path, features: &[&str]) -> PathBuf {
    let features: Vec<String> = features.iter().map(|name| format!("\"{name}\"")).collect();
    let manifest = folder.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         burn = {{ version = \"=0.22.1\", default-features = false, features = [{}] }}\n\n\
         [workspace]\n",
        features.join(", ")
    );
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(&manifest, text).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    // The versions of this workspace, which are on disk already.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    fs::copy(lock, folder.join("Cargo.lock")).unwrap();
    manifest
}
