//! Takes each arm away in turn, in every way in which one gets lost, and sees the check go red at
//! the right line.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use cargo_check_backends::catalogue::Catalogue;
use cargo_check_backends::graph::{Graph, Selection};
use cargo_check_backends::lints::Level;
use cargo_check_backends::model::{Arm, Block, Body, Dialect, Location, Op, Serves};
use cargo_check_backends::report::{CellKind, Report};
use cargo_check_backends::{Options, check, sources};
use common::{Copied, fixtures, shown};

/// What should be found, and at which line.
struct Expected {
    lint: &'static str,
    file: String,
    line: usize,
}

/// One way of losing an arm.
struct Mutation {
    what: String,
    file: PathBuf,
    text: String,
    /// Nothing is expected where another arm serves instead.
    expected: Option<Expected>,
}

/// A package under mutation.
struct Subject {
    name: String,
    options: Options,
}

impl Subject {
    fn ops(&self) -> Vec<Op> {
        let selection: &Selection = &self.options.selection;
        let graph = Graph::load(selection, &[]).unwrap();
        let members = graph.members.iter();
        let declared = members.map(|member| {
            sources::read(&graph, *member, Catalogue::newest())
                .unwrap()
                .ops
        });
        declared.flatten().collect()
    }

    fn check(&self) -> Report {
        check(&self.options).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Applies each mutation, and gives how many were caught.
    fn run(&self) -> usize {
        let sound = self.check();
        assert!(!sound.is_red(), "{}:\n{}", self.name, shown(&sound));
        let mut caught = 0;
        for op in self.ops() {
            for mutation in mutations(&op, &sound) {
                let original = fs::read_to_string(&mutation.file).unwrap();
                assert_ne!(
                    original, mutation.text,
                    "{}: {} changes nothing",
                    self.name, mutation.what
                );
                fs::write(&mutation.file, &mutation.text).unwrap();
                let report = self.check();
                fs::write(&mutation.file, original).unwrap();
                let Some(expected) = &mutation.expected else {
                    assert!(!report.is_red(), "{}: {}", mutation.what, shown(&report));
                    assert_ne!(
                        serde_json::to_string(&report.packages).unwrap(),
                        serde_json::to_string(&sound.packages).unwrap(),
                        "{}: {} is not seen in the coverage",
                        self.name,
                        mutation.what
                    );
                    continue;
                };
                let found = report.findings.iter().any(|finding| {
                    finding.level == Level::Deny
                        && finding.lint.name == expected.lint
                        && finding.location.file == expected.file
                        && finding.location.line == expected.line
                });
                assert!(
                    found,
                    "{}: {}: expected {} at {}:{}\n{}\n{}",
                    self.name,
                    mutation.what,
                    expected.lint,
                    expected.file,
                    expected.line,
                    shown(&report),
                    mutation.text,
                );
                caught += 1;
            }
        }
        caught
    }
}

fn mutations(op: &Op, report: &Report) -> Vec<Mutation> {
    match op.dialect {
        Dialect::Armature => {
            let mut found = of_block(op, &op.forward, "missing-arm", report);
            found.extend(of_block(op, &op.gradient, "missing-gradient", report));
            found
        }
        Dialect::BackendExtension if op.methods.is_empty() => Vec::new(),
        Dialect::BackendExtension => of_list(op, report),
    }
}

/// Whether the report looks at a backend of the op's that no arm is listed for.
fn is_open(op: &Op, block: &Block, report: &Report) -> bool {
    let is_gradient = std::ptr::eq(block, &op.gradient);
    let cells = report.packages.iter().flat_map(|package| &package.ops);
    let mut cells = cells
        .filter(|found| found.subject == op.subject)
        .flat_map(|found| &found.gradient);
    if is_gradient && !cells.any(|cell| cell.kind != CellKind::Off) {
        return false;
    }
    let tables = report
        .packages
        .iter()
        .filter(|package| package.ops.iter().any(|found| found.subject == op.subject));
    tables
        .flat_map(|package| &package.columns)
        .flat_map(|column| &column.backends)
        .any(|backend| block.arms.iter().all(|arm| !arm.serves(*backend)))
}

fn of_block(op: &Op, block: &Block, missing: &'static str, report: &Report) -> Vec<Mutation> {
    let mut found = Vec::new();
    let mut seen: Vec<&Location> = Vec::new();
    for arm in block.arms.iter().chain(&block.rest) {
        // Several backends may share a line, and an implied gradient arm that of the forward.
        let implied = missing == "missing-gradient" && {
            op.forward
                .rest
                .as_ref()
                .is_some_and(|rest| rest.location == arm.location)
        };
        if seen.contains(&&arm.location) || implied {
            continue;
        }
        seen.push(&arm.location);
        let is_rest = arm.serves == Serves::Every;
        let place = Place::of(&arm.location);
        let at_arm = |lint| Some(Expected::at(lint, &arm.location));

        let by_hand = place.within().starts_with("impl");
        if by_hand {
            let served = match is_rest {
                true => is_open(op, block, report),
                false => true,
            };
            if served && !(is_rest && op.forward.rest.is_none()) {
                found.push(Mutation {
                    what: format!("{} without `{}`", op.name, place.within()),
                    text: place.replaced(&place.within().replacen("impl ", "impl Was", 1)),
                    expected: Some(Expected::at(missing, &block.location)),
                    file: arm.location.path.clone(),
                });
            }
            continue;
        }

        let lost = match (is_rest, &block.rest) {
            (true, _) => is_open(op, block, report),
            (false, rest) => rest.is_none(),
        };
        if lost || !is_rest {
            let falls_back = !lost && arm.body == Body::Composite;
            // Where the rest arm is of the same kind, nothing is lost at all.
            let same_kind = block
                .rest
                .as_ref()
                .is_some_and(|rest| rest.body == arm.body);
            if !(falls_back || !lost && same_kind) && is_looked_at(op, arm, report) {
                found.push(Mutation {
                    what: format!("{} without `{}`", op.name, place.within()),
                    text: place.deleted(),
                    expected: lost.then(|| Expected::at(missing, &block.location)),
                    file: arm.location.path.clone(),
                });
            }
        }
        let stub = match missing {
            "missing-gradient" => "(|_, _| todo!(), |_, _, _, _| unimplemented!())",
            _ if is_rest => "composite(|_, _| todo!())",
            _ => "|_, _| todo!()",
        };
        found.push(Mutation {
            what: format!("{} with a stub for `{}`", op.name, place.within()),
            text: place.with_arm(stub),
            expected: at_arm("stub-arm"),
            file: arm.location.path.clone(),
        });
        if is_rest {
            continue;
        }
        found.push(Mutation {
            what: format!("{} with `{}` off", op.name, place.within()),
            text: place.replaced(&format!(
                "#[cfg(feature = \"no-such-feature\")] {}",
                place.within()
            )),
            expected: at_arm("dead-arm"),
            file: arm.location.path.clone(),
        });
        if let Serves::Backend(backend) = &arm.serves {
            found.push(Mutation {
                what: format!("{} with `{}` renamed", op.name, place.within()),
                text: place.replaced(&place.within().replacen(backend.name(), "Nowhere", 1)),
                expected: at_arm("unknown-backend"),
                file: arm.location.path.clone(),
            });
            if place.within().ends_with("=> impl") {
                let target = match missing {
                    "missing-gradient" => "GradientArm<",
                    _ => "Arm<",
                };
                let lines = place.text.split_inclusive('\n').map(|line| {
                    match line.starts_with("impl")
                        && line.contains(target)
                        && line.contains(backend.name())
                    {
                        true => line.replacen(target, "Was<", 1),
                        false => line.to_owned(),
                    }
                });
                found.push(Mutation {
                    what: format!("{} without the impl of `{}`", op.name, place.within()),
                    text: lines.collect(),
                    expected: at_arm("unserved-arm"),
                    file: arm.location.path.clone(),
                });
            }
        }
    }
    found
}

fn is_looked_at(op: &Op, arm: &Arm, report: &Report) -> bool {
    let tables = report
        .packages
        .iter()
        .filter(|package| package.ops.iter().any(|found| found.subject == op.subject));
    arm.serves == Serves::Every
        || tables
            .flat_map(|package| &package.columns)
            .flat_map(|column| &column.backends)
            .any(|backend| arm.serves(*backend))
}

/// Burn's dialect: each name of the list.
fn of_list(op: &Op, report: &Report) -> Vec<Mutation> {
    let mut found = Vec::new();
    let autodiff = op
        .wrappers
        .autodiff
        .iter()
        .map(|arm| (arm, "missing-autodiff"));
    let arms = op.forward.arms.iter().map(|arm| (arm, "missing-arm"));
    // The same name may stand in several lists, of which one holds.
    for (arm, missing) in arms.chain(autodiff) {
        let entry = Place::entry(&arm.location);
        let name = match &arm.serves {
            Serves::Backend(backend) => backend.name().to_owned(),
            _ => "Autodiff".to_owned(),
        };
        let mutated = |what: &str, text: String, expected| Mutation {
            what: format!("{} {what} `{name}`", op.name),
            text,
            expected,
            file: arm.location.path.clone(),
        };
        let at_entry = |lint| Some(Expected::at(lint, &arm.location));
        let off = format!("{name}: cfg(feature = \"no-such-feature\")");
        found.push(mutated(
            "without the feature of",
            entry.replaced(&off),
            at_entry("dead-arm"),
        ));
        if missing == "missing-arm" {
            let renamed = entry.replaced("Nowhere");
            found.push(mutated(
                "without the name of",
                renamed,
                at_entry("unknown-backend"),
            ));
        }
        if arm.cfg.is_always() && is_looked_at(op, arm, report) {
            let expected = Some(Expected::at(missing, &op.forward.location));
            found.push(mutated("without", entry.deleted(), expected));
        }
    }
    found
}

/// A part of a file's text.
struct Place {
    text: String,
    start: usize,
    end: usize,
}

impl Place {
    fn of(location: &Location) -> Self {
        let text = fs::read_to_string(&location.path).unwrap();
        let offset = |line: usize, column: usize| {
            let start: usize = text
                .split_inclusive('\n')
                .take(line - 1)
                .map(str::len)
                .sum();
            let rest = text[start..].char_indices().nth(column - 1);
            rest.map_or(text.len(), |(index, _)| start + index)
        };
        let (start, end) = (
            offset(location.line, location.column),
            offset(location.end_line, location.end_column),
        );
        Self { start, end, text }
    }

    /// An entry of a list, up to its comma.
    fn entry(location: &Location) -> Self {
        let mut place = Self::of(location);
        let mut depth = 0;
        for (index, byte) in place.text[place.start..].bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 0 => {
                    place.end = place.start + index;
                    break;
                }
                b')' => depth -= 1,
                b',' if depth == 0 => {
                    place.end = place.start + index;
                    break;
                }
                _ => {}
            }
        }
        place
    }

    fn within(&self) -> &str {
        &self.text[self.start..self.end]
    }

    fn replaced(&self, with: &str) -> String {
        format!(
            "{}{with}{}",
            &self.text[..self.start],
            &self.text[self.end..]
        )
    }

    /// Without it, its comma and its attributes. Line numbers stay.
    fn deleted(&self) -> String {
        let blank = |text: &str| -> String {
            text.chars()
                .map(|each| if each == '\n' { '\n' } else { ' ' })
                .collect()
        };
        let mut start = self.start;
        loop {
            let before = self.text[..start].trim_end();
            let line = before.rfind('\n').map_or(0, |index| index + 1);
            if !before[line..].trim_start().starts_with("#[cfg") {
                break;
            }
            start = line;
        }
        let mut end = self.end;
        if let Some(comma) = self.text[end..].find(|next: char| !next.is_whitespace())
            && self.text[end + comma..].starts_with(',')
        {
            end += comma + 1;
        }
        format!(
            "{}{}{}",
            &self.text[..start],
            blank(&self.text[start..end]),
            &self.text[end..]
        )
    }

    /// With another arm on the right.
    fn with_arm(&self, arm: &str) -> String {
        let (left, _) = self.within().split_once("=>").unwrap();
        self.replaced(&format!("{left}=> {arm}"))
    }
}

impl Expected {
    fn at(lint: &'static str, location: &Location) -> Self {
        Self {
            lint,
            file: location.file.clone(),
            line: location.line,
        }
    }
}

#[test]
fn no_arm_of_a_fixture_can_be_lost() {
    let mut caught = 0;
    let mut names: Vec<String> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "stand-ins")
        .collect();
    names.sort();
    for name in names {
        let copied = Copied::new(&name, "cured");
        caught += Subject {
            name,
            options: copied.options(),
        }
        .run();
    }
    assert!(caught > 0);
    println!("fixtures: {caught} of {caught} mutations caught");
}

#[test]
fn no_arm_of_armature_can_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = copy_of_armature(folder.path());
    let mut options = Options::default();
    options.selection.manifest_path = Some(manifest);
    options.selection.cargo_flags = vec!["--offline".to_owned()];
    let caught = Subject {
        name: "armature".to_owned(),
        options,
    }
    .run();
    assert!(caught > 0);
    println!("armature: {caught} of {caught} mutations caught");
}

/// Armature's own sources, with stand-ins for all that they depend on.
fn copy_of_armature(to: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("armature");
    common::copy(&fixtures().join("stand-ins"), &to.join("stand-ins"));
    common::copy(&from.join("src"), &to.join("armature/src"));
    let text = fs::read_to_string(from.join("Cargo.toml")).unwrap();
    let real: toml_edit::DocumentMut = text.parse().unwrap();

    let mut manifest = toml_edit::DocumentMut::new();
    manifest["package"]["name"] = real["package"]["name"].clone();
    manifest["package"]["version"] = toml_edit::value("0.1.0");
    manifest["package"]["edition"] = toml_edit::value("2024");
    manifest["features"] = real["features"].clone();
    manifest["workspace"] = toml_edit::table();
    let features = real["features"].as_table().unwrap();
    for (name, dependency) in real["dependencies"].as_table().unwrap() {
        let stand_in = to.join("stand-ins").join(name);
        if !stand_in.exists() {
            fs::create_dir_all(stand_in.join("src")).unwrap();
            fs::write(stand_in.join("src/lib.rs"), "").unwrap();
            let mut text = format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[features]\n"
            );
            let values = features
                .iter()
                .flat_map(|(_, values)| values.as_array().unwrap());
            let mut named: Vec<&str> = values
                .filter_map(|value| value.as_str()?.split_once('/'))
                .filter(|(of, _)| of.trim_end_matches('?') == name)
                .map(|(_, feature)| feature)
                .collect();
            named.sort_unstable();
            named.dedup();
            for feature in named {
                text.push_str(&format!("{feature} = []\n"));
            }
            fs::write(stand_in.join("Cargo.toml"), text).unwrap();
        }
        let mut line = toml_edit::InlineTable::new();
        line.insert("path", format!("../stand-ins/{name}").into());
        line.insert("default-features", false.into());
        if let Some(optional) = dependency
            .get("optional")
            .and_then(toml_edit::Item::as_bool)
        {
            line.insert("optional", optional.into());
        }
        manifest["dependencies"][name] = toml_edit::value(line);
    }
    let path = to.join("armature/Cargo.toml");
    fs::write(&path, manifest.to_string()).unwrap();
    path
}
