//! What is declared: ops and their arms, as plain data.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use crate::catalogue::Backend;
use crate::cfg::Cfg;

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    /// The file: relative to the workspace, or, for a dependency, to the folder that holds its
    /// package.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The last line.
    #[serde(skip)]
    pub end_line: usize,
    /// The column behind the last character.
    #[serde(skip)]
    pub end_column: usize,
    /// The file, as this machine has it.
    #[serde(skip)]
    pub path: PathBuf,
}

/// How an op is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Armature's traits, by `arms!` or by hand.
    Armature,
    /// Burn's `#[backend_extension(…)]`.
    BackendExtension,
}

/// The name of an op's subject, the way that findings and tables show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Op {
    /// The dialect.
    pub dialect: Dialect,
    /// The op's name: `Op::NAME`, or that of the trait.
    pub name: String,
    /// The type, or the trait.
    pub subject: String,
    /// Where it is declared.
    pub location: Location,
    /// When it is declared at all.
    pub cfg: Cfg,
    /// What Burn's macro routes: the methods of the trait. For Armature, the op itself.
    pub methods: Vec<Method>,
    /// The forward arms.
    pub forward: Block,
    /// The gradient arms.
    pub gradient: Block,
    /// For Burn's macro: what is listed beside backends.
    pub wrappers: Wrappers,
}

/// A function that is routed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub location: Location,
    /// What its inputs carry.
    pub inputs: Inputs,
    /// Whether the trait gives it a body.
    pub default: Option<Body>,
    /// Whether an implementation leaves it to the trait.
    pub inherited: bool,
}

/// What the inputs of a routed function carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inputs {
    /// A float tensor for certain.
    Float,
    /// Tensors, none of them float for certain.
    Tensor,
    /// No tensor.
    None,
}

/// The arms of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Where a new arm would go.
    pub location: Location,
    /// What is listed, in order.
    pub arms: Vec<Arm>,
    /// What serves every backend that is not listed.
    pub rest: Option<Arm>,
}

/// What runs an op on one backend, or on every other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arm {
    /// What it is listed for.
    pub serves: Serves,
    /// When it is there.
    pub cfg: Cfg,
    /// What it is.
    pub body: Body,
    /// Where it is listed.
    pub location: Location,
}

/// The backends that an arm serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Serves {
    /// This one.
    Backend(Backend),
    /// All of them.
    Every,
    /// A type whose backend is not known.
    Unknown(String),
}

/// What an arm is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Written for its backends.
    Kernel,
    /// Built from Burn's primitive ops.
    Composite,
    /// Said not to be there, with the reason.
    Unsupported(String),
    /// It panics whatever its inputs are: with which macro, and where.
    Stub(String, Location),
    /// It is listed, and nothing implements it.
    Missing,
    /// It cannot be told, and why.
    Unknown(String),
}

/// What Burn's macro wraps around backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wrappers {
    /// `Autodiff`, where it is listed.
    pub autodiff: Vec<Arm>,
    /// `Fusion`, where it is listed.
    pub fusion: Vec<Arm>,
    /// Implementations for `Fusion` that stand without being listed.
    pub fusion_by_hand: Vec<Arm>,
}

impl Arm {
    /// Whether the arm is listed for `backend`.
    pub fn serves(&self, backend: Backend) -> bool {
        match &self.serves {
            Serves::Backend(served) => *served == backend,
            Serves::Every => true,
            Serves::Unknown(_) => false,
        }
    }
}

/// Something in the sources that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Where.
    pub location: Location,
    /// When it is part of the build.
    pub cfg: Cfg,
    /// What is not known, and why.
    pub reason: String,
    /// Whether a file is missing or broken; else it is this tool that cannot decide.
    pub is_error: bool,
}

/// A name in the place of a backend's that is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misnamed {
    /// The op.
    pub subject: String,
    /// The name.
    pub name: String,
    /// Where.
    pub location: Location,
    /// When it is there.
    pub cfg: Cfg,
}

/// An implementation that no list reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stray {
    /// The op.
    pub subject: String,
    /// What it is implemented on.
    pub backend: Backend,
    /// Where.
    pub location: Location,
    /// When it is there.
    pub cfg: Cfg,
}

/// Everything that one package declares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// Its ops.
    pub ops: Vec<Op>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Names that are no backend's.
    pub misnamed: Vec<Misnamed>,
    /// Implementations that no list reaches.
    pub strays: Vec<Stray>,
    /// The files that were read.
    #[serde(skip)]
    pub files: BTreeSet<PathBuf>,
}
