//! `cargo xtask test` and `cargo xtask lint`: which packages are built with which features.
//!
//! Burn is large, and every set of features is another build of it; so there are few sets, and each
//! is always selected by the same packages and features.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The packages that stand on Burn. Selected together, they get the same features of Burn's
/// dependencies in every suite, so those are built once.
const ON_BURN: [&str; 7] = [
    "burn-armature",
    "armature-core",
    "armature-macros",
    "armature-cpu",
    "armature-ndarray",
    "armature-flex",
    "armature-verify",
];
const CUBECL: &str = "armature-cubecl";
/// The packages that do not.
const TOOLS: [&str; 2] = ["cargo-check-backends", "xtask"];
/// A build with feature drift in it, which has to be a build of its own.
const DRIFT: [&str; 1] = ["armature-test-drift"];

/// Why the tests, or the lints, did not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuiteError {
    /// Cargo could not be started.
    #[error("cannot run `{command}`: {source}; is cargo on the PATH?")]
    Start {
        /// The command.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Some suites failed.
    #[error("failed: {}; run the printed command of each to see it alone", .0.join(", "))]
    Failed(Vec<String>),
    /// A suite has to run in CI, and lacks something.
    #[error("in CI nothing is skipped, but {0}")]
    Missing(String),
}

/// One call of cargo.
struct Suite {
    name: &'static str,
    packages: Vec<&'static str>,
    features: Vec<&'static str>,
    /// The integration tests to run; none for every target.
    tests: Vec<&'static str>,
}

impl Suite {
    fn new(name: &'static str, packages: &[&'static str]) -> Self {
        Self {
            name,
            packages: packages.to_vec(),
            features: Vec::new(),
            tests: Vec::new(),
        }
    }

    fn on_gpu(name: &'static str, features: &[&'static str]) -> Self {
        let mut packages = ON_BURN.to_vec();
        packages.push(CUBECL);
        Self {
            name,
            packages,
            features: features.to_vec(),
            tests: Vec::new(),
        }
    }

    /// With the tests that fusion can change alone: the kernels' own never meet it.
    fn fused(features: &[&'static str]) -> Self {
        let tests = vec!["rms_norm", "autodiff", "routing"];
        Self {
            tests,
            ..Self::on_gpu("the same with fusion", features)
        }
    }

    fn arguments(&self) -> Vec<String> {
        let packages = self
            .packages
            .iter()
            .flat_map(|name| ["--package".into(), (*name).into()]);
        let mut arguments: Vec<String> = packages.collect();
        if !self.features.is_empty() {
            let features = self
                .features
                .iter()
                .map(|name| format!("burn-armature/{name}"));
            arguments.extend(["--features".into(), features.collect::<Vec<_>>().join(",")]);
        }
        arguments
    }
}

/// What this machine has, beyond cargo.
struct Machine {
    /// The LLVM that CubeCL's CPU and CUDA runtimes are built with.
    llvm: bool,
    /// A Vulkan driver, be it one on the CPU.
    vulkan: bool,
}

impl Machine {
    fn look() -> Self {
        let icds = [
            "/usr/share/vulkan/icd.d",
            "/etc/vulkan/icd.d",
            "/usr/local/share/vulkan/icd.d",
        ];
        let has_icd = |dir: &&str| {
            Path::new(dir)
                .read_dir()
                .is_ok_and(|mut entries| entries.next().is_some())
        };
        let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
        Self {
            llvm: crate::llvm::installed().unwrap_or(false),
            vulkan: icds.iter().any(has_icd)
                || named.iter().any(|name| env::var_os(name).is_some()),
        }
    }
}

/// Runs every suite that this machine can run, and says what it left out.
///
/// The feature `vulkan` is left out: with it Burn compiles to SPIR-V, which crashes the Vulkan driver
/// for the CPU of Mesa 22.3. The feature `wgpu` runs there through WGSL.
pub(crate) fn test() -> Result<(), SuiteError> {
    let machine = Machine::look();
    let mut suites = vec![
        Suite::new("the checker and xtask", &TOOLS),
        Suite::new("ndarray and flex", &ON_BURN),
        Suite::new("feature drift", &DRIFT),
    ];
    let mut skipped = Vec::new();
    if machine.llvm {
        let runtimes = ["wgpu", "cuda", "cpu"];
        suites.push(Suite::on_gpu(
            "wgpu and CubeCL CPU; cuda where there is one",
            &runtimes,
        ));
        let fused = ["wgpu", "cuda", "cpu", "fusion"];
        suites.push(Suite::fused(&fused));
    } else {
        skipped.push("CubeCL CPU and cuda: no LLVM SDK; `cargo xtask llvm` installs it");
        if machine.vulkan {
            suites.push(Suite::on_gpu("wgpu", &["wgpu"]));
            suites.push(Suite::fused(&["wgpu", "fusion"]));
        }
    }
    if !machine.vulkan {
        skipped.push("wgpu: no Vulkan driver; Debian's mesa-vulkan-drivers has one for the CPU");
    }
    for skip in &skipped {
        println!("skipped: {skip}");
    }
    if let (Some(skip), true) = (skipped.first(), env::var_os("CI").is_some()) {
        return Err(SuiteError::Missing((*skip).to_owned()));
    }

    let mut count = Count::default();
    let mut failed = Vec::new();
    for suite in &suites {
        let mut arguments = vec!["test".to_owned(), "--no-fail-fast".to_owned()];
        arguments.extend(suite.arguments());
        let tests = suite.tests.iter();
        arguments.extend(tests.flat_map(|test| ["--test".to_owned(), (*test).to_owned()]));
        if !cargo(suite.name, &arguments, &[], |line| count.read(line))? {
            failed.push(suite.name.to_owned());
        }
    }
    for skip in &skipped {
        println!("skipped: {skip}");
    }
    println!(
        "\n{} passed, {} failed",
        count.passed,
        count.failed.max(failed.len())
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(SuiteError::Failed(failed))
    }
}

/// Clippy and rustdoc, warnings denied, over the suites that need nothing but cargo.
pub(crate) fn lint() -> Result<(), SuiteError> {
    let suites = [
        Suite::new("the checker and xtask", &TOOLS),
        Suite::new("ndarray and flex", &ON_BURN),
    ];
    let mut failed = Vec::new();
    for suite in &suites {
        let mut clippy = vec!["clippy".to_owned(), "--all-targets".to_owned()];
        clippy.extend(suite.arguments());
        clippy.extend(["--", "-D", "warnings"].map(str::to_owned));
        let mut docs = vec!["doc".to_owned(), "--no-deps".to_owned()];
        docs.extend(suite.arguments());
        let passed = cargo(suite.name, &clippy, &[], |_| ())?
            && cargo(
                suite.name,
                &docs,
                &[("RUSTDOCFLAGS", "-D warnings")],
                |_| (),
            )?;
        if !passed {
            failed.push(suite.name.to_owned());
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(SuiteError::Failed(failed))
    }
}

/// Tests passed and failed, as cargo's test harnesses report them.
#[derive(Debug, Default, PartialEq)]
struct Count {
    passed: usize,
    failed: usize,
}

impl Count {
    fn read(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result: ") else {
            return;
        };
        let number = |what: &str| {
            let before = result.split(what).next()?;
            before
                .trim_end()
                .rsplit([' ', '.'])
                .next()?
                .parse::<usize>()
                .ok()
        };
        self.passed += number(" passed").unwrap_or(0);
        self.failed += number(" failed").unwrap_or(0);
    }
}

/// Runs cargo in the workspace, passing its output on and each line of it to `see`.
fn cargo(
    name: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
    mut see: impl FnMut(&str),
) -> Result<bool, SuiteError> {
    let command = format!("cargo {}", arguments.join(" "));
    println!("\n-- {name}\n{command}");
    let start = |source| SuiteError::Start {
        command: command.clone(),
        source,
    };
    let mut child = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(start)?;
            see(&line);
            println!("{line}");
        }
    }
    Ok(child.wait().map_err(start)?.success())
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let mut count = Count::default();
        count.read("test result: ok. 17 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out");
        count.read("test result: FAILED. 2 passed; 1 failed; 0 ignored");
        count.read("test shapes ... ok");
        assert_eq!(
            count,
            Count {
                passed: 19,
                failed: 1
            }
        );
    }

    #[test]
    fn a_suite_is_one_selection() {
        let suite = Suite::on_gpu("", &["wgpu", "cpu"]);
        let arguments = suite.arguments().join(" ");
        assert!(
            arguments.starts_with("--package burn-armature "),
            "{arguments}"
        );
        assert!(arguments.ends_with(
            "--package armature-cubecl --features burn-armature/wgpu,burn-armature/cpu"
        ));
    }
}
