//! `cargo xtask llvm`: the LLVM SDK that burn's features `cuda` and `cpu` link.
//!
//! tracel-llvm-bundler, in their dependencies, downloads it at build time from a code host, unless
//! its folder is there with a mark in it. Where that host cannot be reached, a Python wheel holds a
//! matching SDK: it is installed in a virtual environment, and its folder is linked to where the
//! bundler looks.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::MetadataCommand;
use indicatif::ProgressBar;

/// The package that knows which SDK is needed.
const BUNDLER: &str = "tracel-llvm-bundler";
/// What the bundler takes for the sign of a whole SDK.
const MARK: &str = ".tracel-llvm-installed";
/// The wheels, by the version of the SDK that they match.
const WHEELS: [(&str, &str); 1] = [("23.1", "mlc-llvm-static[all]==23.1.1.post0")];

/// Why the SDK could not be made available. Every text ends with what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LlvmError {
    /// The workspace cannot be read.
    #[error("cannot read the workspace's dependencies: {0}; see what `cargo metadata` says")]
    Metadata(#[from] cargo_metadata::Error),
    /// Nothing in the workspace wants an SDK.
    #[error("no package of the workspace depends on {BUNDLER}, so no LLVM SDK is needed")]
    NotNeeded,
    /// No wheel is known to match.
    #[error(
        "no Python wheel is known for LLVM {0}; put a matching SDK at {1} and an empty file {MARK} in \
         it"
    )]
    NoWheel(String, PathBuf),
    /// There is no home folder.
    #[error("cannot tell where data and caches go; set HOME, or XDG_DATA_HOME and XDG_CACHE_HOME")]
    NoHome,
    /// There is no Python.
    #[error(
        "cannot start python3 ({0}); install Python 3 (Debian: `apt-get install python3-venv`)"
    )]
    NoPython(io::Error),
    /// Python cannot make virtual environments.
    #[error(
        "python3 cannot make a virtual environment; install its module venv (Debian: `apt-get \
         install python3-venv`)\n{0}"
    )]
    NoVenv(String),
    /// The wheel cannot be installed.
    #[error(
        "pip cannot install {wheel}; check that PyPI can be reached, and that there is room for 2 GB\n{output}"
    )]
    Pip {
        /// What was to be installed.
        wheel: &'static str,
        /// What pip said.
        output: String,
    },
    /// The wheel does not hold what it should.
    #[error("the wheel does not say where its SDK is; remove {} and try again\n{output}", .venv.display())]
    NoPrefix {
        /// The virtual environment.
        venv: PathBuf,
        /// What was said instead.
        output: String,
    },
    /// Something stands where the link belongs.
    #[error("{} is there, and no SDK; move it away and try again", .0.display())]
    InTheWay(PathBuf),
    /// The file system refuses.
    #[error("cannot {what} {}: {source}; check its permissions", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Makes the SDK available, or says that it is.
pub(crate) fn make_available() -> Result<(), LlvmError> {
    let version = needed_version()?;
    let folders = Folders::of(|name| env::var_os(name).map(PathBuf::from))?;
    let bundle = folders.bundle(&version);
    if bundle.join(MARK).is_file() {
        println!("LLVM {version} is there already: {}", bundle.display());
        return Ok(());
    }
    let known = WHEELS.iter().find(|(of, _)| version.starts_with(of));
    let (_, wheel) = known.ok_or_else(|| LlvmError::NoWheel(version.clone(), bundle.clone()))?;
    if bundle.exists() {
        return Err(LlvmError::InTheWay(bundle));
    }
    let prefix = install(wheel, &folders.venv(&version))?;
    link(&prefix, &bundle)?;
    println!("LLVM {version} is at {}", bundle.display());
    Ok(())
}

/// Whether the SDK is there.
pub(crate) fn installed() -> Result<bool, LlvmError> {
    let folders = Folders::of(|name| env::var_os(name).map(PathBuf::from))?;
    Ok(folders.bundle(&needed_version()?).join(MARK).is_file())
}

/// The version that the workspace's lock file asks for.
fn needed_version() -> Result<String, LlvmError> {
    let manifest = crate::suites::root().join("Cargo.toml");
    // Optional dependencies are part of the lock file, and of this, in any case.
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .other_options(["--all-features".to_owned()])
        .exec()?;
    let bundler = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == BUNDLER);
    bundler
        .map(|bundler| bundler.version.to_string())
        .ok_or(LlvmError::NotNeeded)
}

/// Where things go.
struct Folders {
    data: PathBuf,
    cache: PathBuf,
}

impl Folders {
    /// By the variables that the bundler goes by, too.
    fn of(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, LlvmError> {
        let folder = |name: &str, below: &[&str]| {
            let given = variable(name).filter(|path| path.is_absolute());
            let home = || {
                Some(
                    below
                        .iter()
                        .fold(variable("HOME")?, |path, part| path.join(part)),
                )
            };
            given.or_else(home).ok_or(LlvmError::NoHome)
        };
        let data: &[&str] = match cfg!(target_os = "macos") {
            true => &["Library", "Application Support"],
            false => &[".local", "share"],
        };
        Ok(Self {
            data: folder("XDG_DATA_HOME", data)?,
            cache: folder("XDG_CACHE_HOME", &[".cache"])?,
        })
    }

    fn bundle(&self, version: &str) -> PathBuf {
        self.data
            .join("tracel")
            .join(format!("tracel-llvm-{version}"))
    }

    fn venv(&self, version: &str) -> PathBuf {
        self.cache.join("armature").join(format!("llvm-{version}"))
    }
}

/// Installs the wheel, and says where its SDK is.
fn install(wheel: &'static str, venv: &Path) -> Result<PathBuf, LlvmError> {
    let python = venv.join("bin").join("python");
    if !python.is_file() {
        run(
            "making a virtual environment",
            Path::new("python3"),
            |python| python.args(["-m", "venv", "--clear"]).arg(venv),
        )
        .map_err(|failure| match failure {
            Failure::Start(error) => LlvmError::NoPython(error),
            Failure::Exit(output) => LlvmError::NoVenv(output),
        })?;
    }
    run(
        &format!("installing {wheel} (about 500 MB)"),
        &python,
        |python| {
            python.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                wheel,
            ])
        },
    )
    .map_err(|failure| match failure {
        Failure::Start(error) => LlvmError::NoPython(error),
        Failure::Exit(output) => LlvmError::Pip { wheel, output },
    })?;
    let said = run("looking for the SDK in it", &python, |python| {
        python.args(["-m", "mlc_llvm_static.config", "--prefix"])
    });
    let no_prefix = |output| LlvmError::NoPrefix {
        venv: venv.to_path_buf(),
        output,
    };
    match said {
        Ok(prefix) if Path::new(prefix.trim()).is_dir() => Ok(PathBuf::from(prefix.trim())),
        Ok(output) | Err(Failure::Exit(output)) => Err(no_prefix(output)),
        Err(Failure::Start(error)) => Err(LlvmError::NoPython(error)),
    }
}

enum Failure {
    Start(io::Error),
    Exit(String),
}

/// Runs a program, with a sign of life, and gives what it printed.
fn run(
    what: &str,
    program: &Path,
    arguments: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<String, Failure> {
    let spinner = io::stderr().is_terminal().then(|| {
        let spinner = ProgressBar::new_spinner().with_message(what.to_owned());
        spinner.enable_steady_tick(Duration::from_millis(120));
        spinner
    });
    if spinner.is_none() {
        eprintln!("{what} …");
    }
    let output = arguments(&mut Command::new::<&OsStr>(program.as_ref())).output();
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    let output = output.map_err(Failure::Start)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Failure::Exit(text(&output.stderr) + &text(&output.stdout))),
    }
}

/// Links the SDK to where the bundler looks, and marks it as whole.
fn link(prefix: &Path, bundle: &Path) -> Result<(), LlvmError> {
    let failed = |what, path: &Path| {
        let path = path.to_path_buf();
        move |source| LlvmError::File { what, path, source }
    };
    if let Some(parent) = bundle.parent() {
        fs::create_dir_all(parent).map_err(failed("create", parent))?;
    }
    let mark = prefix.join(MARK);
    fs::write(&mark, "").map_err(failed("write", &mark))?;
    // A link to an environment that is gone.
    if bundle.is_symlink() {
        fs::remove_file(bundle).map_err(failed("replace", bundle))?;
    }
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(prefix, bundle);
    #[cfg(windows)]
    let linked = std::os::windows::fs::symlink_dir(prefix, bundle);
    linked.map_err(failed("create the link", bundle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = fs::read_to_string(crate::suites::root().join("Cargo.lock")).unwrap();
        let version = needed_version().unwrap();
        assert!(lock.contains(&format!("name = \"{BUNDLER}\"\nversion = \"{version}\"")));
        assert!(
            WHEELS.iter().any(|(of, _)| version.starts_with(of)),
            "no wheel for {version}"
        );
    }

    #[test]
    fn folders_follow_the_variables() {
        let folders = Folders::of(|name| match name {
            "XDG_DATA_HOME" => Some(PathBuf::from("/data")),
            "HOME" => Some(PathBuf::from("/home/someone")),
            _ => None,
        })
        .unwrap();
        assert_eq!(
            folders.bundle("1.2-3"),
            Path::new("/data/tracel/tracel-llvm-1.2-3")
        );
        assert_eq!(
            folders.venv("1"),
            Path::new("/home/someone/.cache/armature/llvm-1")
        );
        assert!(matches!(Folders::of(|_| None), Err(LlvmError::NoHome)));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_replaces_one_that_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("sdk");
        let bundle = folder.path().join("data/tracel/tracel-llvm-1");
        fs::create_dir_all(&prefix).unwrap();
        fs::create_dir_all(bundle.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(folder.path().join("gone"), &bundle).unwrap();
        link(&prefix, &bundle).unwrap();
        assert!(bundle.join(MARK).is_file());
    }

    #[test]
    fn a_program_that_is_missing_is_told_from_one_that_fails() {
        let missing = run("a test", Path::new("no-such-program"), |command| command);
        assert!(matches!(missing, Err(Failure::Start(_))));
        let failing = run("a test", Path::new("cargo"), |cargo| {
            cargo.arg("no-such-command")
        });
        assert!(matches!(failing, Err(Failure::Exit(text)) if text.contains("no-such-command")));
    }
}
