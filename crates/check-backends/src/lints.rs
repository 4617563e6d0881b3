//! What is looked for, as a table of data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Not shown.
    Allow,
    /// Shown; nothing is wrong with this build.
    Note,
    /// Shown.
    Warn,
    /// The check fails.
    Deny,
}

/// One thing that is looked for.
#[derive(Debug)]
pub struct Lint {
    /// Its name, in reports and on the command line.
    pub name: &'static str,
    /// Its level, unless the user says otherwise.
    pub level: Level,
    /// What it finds, in one sentence.
    pub finds: &'static str,
    /// Why that matters, and what cures it.
    pub explains: &'static str,
}

/// A lint of the table, by its name.
#[derive(Clone, Copy, Debug)]
pub struct LintId(&'static Lint);

impl PartialEq for LintId {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for LintId {}

impl std::ops::Deref for LintId {
    type Target = Lint;
    fn deref(&self) -> &Lint {
        self.0
    }
}

impl Serialize for LintId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl fmt::Display for LintId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl FromStr for LintId {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        LINTS
            .iter()
            .find(|lint| lint.name == name)
            .map(LintId)
            .ok_or_else(|| {
                let names = LINTS.iter().map(|lint| lint.name).collect::<Vec<_>>();
                format!("no lint `{name}`; there are {}", names.join(", "))
            })
    }
}

macro_rules! lints {
    ($($id:ident: $name:literal, $level:ident, $finds:literal, $explains:literal;)*) => {
        /// Every lint.
        pub static LINTS: &[Lint] = &[
            $(Lint { name: $name, level: Level::$level, finds: $finds, explains: $explains },)*
        ];
        lints!(@ids 0; $($id)*);
    };
    (@ids $index:expr; $id:ident $($rest:ident)*) => {
        pub(crate) const $id: LintId = LintId(&LINTS[$index]);
        lints!(@ids $index + 1; $($rest)*);
    };
    (@ids $index:expr;) => {};
}

lints! {
    MISSING_ARM: "missing-arm", Deny,
        "a backend of the build has no arm, so a call on it panics, or does not compile",
        "List the backend, as a kernel or as unsupported, or give the op a rest arm.";
    MISSING_GRADIENT: "missing-gradient", Deny,
        "an op has no gradient arm on a backend that is compiled in together with autodiff",
        "Give the op a gradient arm, let Burn differentiate its composite, or say that it is unsupported.";
    MISSING_AUTODIFF: "missing-autodiff", Deny,
        "`backend_extension` does not route tracked tensors although autodiff is compiled in",
        "List `Autodiff`, and implement the trait for `Autodiff<B, C>`.";
    MISSING_FUSION: "missing-fusion", Deny,
        "the build fuses `Cube`, and nothing implements the trait for `Fusion`",
        "List `Fusion`, or implement the trait for `Fusion<B>`. Such a build does not compile.";
    STUB_ARM: "stub-arm", Deny,
        "an arm panics whatever its inputs are",
        "Write the arm, or say that the backend is unsupported.";
    DEFAULT_PANICS: "default-panics", Warn,
        "an implementation leaves a method to the trait, whose body panics",
        "Write the method where it is called; nothing needs to be done where it never is.";
    DEAD_ARM: "dead-arm", Deny,
        "an arm stands behind a condition that no choice of features can meet",
        "Name a feature that the manifest declares, or declare it.";
    UNKNOWN_BACKEND: "unknown-backend", Deny,
        "a list names what is no backend of this Burn",
        "Use a name that this version of Burn has.";
    UNSERVED_ARM: "unserved-arm", Deny,
        "a backend is listed, and nothing implements the op on it",
        "Write the implementation, or take the backend from the list.";
    UNREACHED_IMPL: "unreached-impl", Warn,
        "the trait is implemented on a backend that its list does not name",
        "List the backend: without that no call reaches the implementation.";
    NO_OPS: "no-ops", Deny,
        "no op was found, so nothing was checked",
        "Point the tool at the workspace that declares ops, or at one that depends on it.";
    UNKNOWN: "unknown", Warn,
        "something could not be read or decided, so it is neither sound nor a gap",
        "Write it in a form that can be read without running the compiler.";
    STALE_ALLOWANCE: "stale-allowance", Warn,
        "a manifest allows a finding that is not there",
        "Remove the allowance.";
    LATENT: "latent", Note,
        "a package of the graph declares ops of which no arm is on, and nothing reaches them",
        "Nothing needs to be done until a crate calls those ops.";
}

impl LintId {
    /// The table.
    pub fn all() -> impl Iterator<Item = Self> {
        LINTS.iter().map(LintId)
    }
}
