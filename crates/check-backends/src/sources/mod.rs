//! Where declarations are read: the sources of a package, from the roots of its crates.

mod arms;
mod body;
mod expand;
mod extension;
mod link;
mod walk;

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::TargetKind;

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::graph::{Graph, PackageIndex};
use crate::model::Declared;

/// What a package's sources are searched for before any of them is parsed.
const MARKS: [&str; 4] = ["backend_extension", "arms!", " Op for ", "Arm<"];

/// Reads what a package declares.
///
/// # Errors
///
/// [`Error::Read`] and [`Error::Parse`] for a crate root of a workspace member. A dependency's files
/// are the business of whoever publishes it: there, what cannot be read is not known.
pub fn read(
    graph: &Graph,
    package: PackageIndex,
    catalogue: &Catalogue,
) -> Result<Declared, Error> {
    let folder = graph.folder(package);
    if !is_marked(&folder.join("src")) && !roots(graph, package).any(|root| is_marked(&root)) {
        return Ok(Declared::default());
    }
    let is_member = graph.members.contains(&package);
    let shown_from = match folder.starts_with(&graph.root) {
        true => graph.root.clone(),
        false => folder.parent().unwrap_or(folder).to_path_buf(),
    };
    let show = |path: &Path| show(path, &shown_from);

    let mut declared = Declared::default();
    for root in roots(graph, package) {
        // Each crate has names of its own, and may share files with the others.
        let mut raw = walk::Raw::default();
        match walk::read_crate(&root, &mut raw, &show) {
            Err(error) if is_member => return Err(error),
            // Its root is not read: there is nothing to point at but the manifest.
            Err(_) => continue,
            Ok(()) => link::link(raw, catalogue, &mut declared),
        }
    }
    Ok(declared)
}

/// The root files of the crates of a package that count.
fn roots(graph: &Graph, package: PackageIndex) -> impl Iterator<Item = PathBuf> {
    let tests = graph.tests && graph.members.contains(&package);
    let targets = graph.packages[package]
        .targets
        .iter()
        .filter(move |target| {
            target.kind.iter().any(|kind| match kind {
                TargetKind::Test | TargetKind::Bench | TargetKind::Example => tests,
                TargetKind::CustomBuild | TargetKind::ProcMacro => false,
                _ => true,
            })
        });
    targets.map(|target| target.src_path.clone().into_std_path_buf())
}

/// Whether any Rust file at or under `path` has one of the marks. Links are not followed.
fn is_marked(path: &Path) -> bool {
    let Ok(about) = fs::symlink_metadata(path) else {
        return false;
    };
    if about.is_dir() {
        let Ok(entries) = fs::read_dir(path) else {
            return false;
        };
        return entries.flatten().any(|entry| is_marked(&entry.path()));
    }
    if path
        .extension()
        .is_none_or(|extension| extension != "rs" && extension != "in")
    {
        return false;
    }
    let Ok(bytes) = fs::read(path) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    // A `#[path]` or `include!` may lead out of the folder that is searched.
    let leads_out =
        text.contains("\"../") && (text.contains("path =") || text.contains("include!"));
    leads_out || MARKS.iter().any(|mark| text.contains(mark))
}

fn show(path: &Path, from: &Path) -> String {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir if clean.file_name().is_some() => {
                clean.pop();
            }
            std::path::Component::CurDir => {}
            part => clean.push(part),
        }
    }
    let shown = clean.strip_prefix(from).unwrap_or(&clean);
    shown.to_string_lossy().replace('\\', "/")
}
