//! Conditions of `#[cfg(…)]`, and what they come to in a build.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, Meta, Token};

/// A condition as it is written in `#[cfg(…)]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cfg {
    /// Every one of these; with none, always true.
    All(Vec<Cfg>),
    /// At least one of these; with none, never true.
    Any(Vec<Cfg>),
    /// Not this.
    Not(Box<Cfg>),
    /// `feature = "…"`.
    Feature(String),
    /// A bare name, such as `unix`.
    Flag(String),
    /// A name with a value, such as `target_os = "linux"`.
    KeyValue(String, String),
    /// Something that could not be read, as it is written.
    Unreadable(String),
}

/// What a condition is evaluated in: one package in one build.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// The features of the package.
    pub features: &'a BTreeSet<String>,
    /// What the compiler sets for the target.
    pub target: &'a [cargo_platform::Cfg],
    /// Whether `cfg(test)` holds.
    pub test: bool,
}

/// Names that are the compiler's: where it does not set them they are off. Any other name comes from
/// a build script or from flags, which this tool does not run.
const COMPILERS: [&str; 10] = [
    "unix",
    "windows",
    "debug_assertions",
    "proc_macro",
    "doc",
    "doctest",
    "docsrs",
    "miri",
    "overflow_checks",
    "ub_checks",
];

impl Cfg {
    /// The condition that always holds.
    pub const fn always() -> Self {
        Self::All(Vec::new())
    }

    /// Whether nothing is asked.
    pub fn is_always(&self) -> bool {
        matches!(self, Self::All(parts) if parts.iter().all(Self::is_always))
    }

    /// Both conditions.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (self.is_always(), other.is_always()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => Self::All(vec![self.clone(), other.clone()]),
        }
    }

    /// Reads what stands inside `cfg(…)`.
    pub fn read(meta: &Meta) -> Self {
        let name = |path: &syn::Path| path.get_ident().map(ToString::to_string);
        match meta {
            Meta::Path(path) => match name(path) {
                Some(flag) => Self::Flag(flag),
                None => Self::unreadable(meta),
            },
            Meta::NameValue(pair) => match (name(&pair.path), &pair.value) {
                (
                    Some(key),
                    Expr::Lit(ExprLit {
                        lit: Lit::Str(value),
                        ..
                    }),
                ) => match key.as_str() {
                    "feature" => Self::Feature(value.value()),
                    _ => Self::KeyValue(key, value.value()),
                },
                _ => Self::unreadable(meta),
            },
            Meta::List(list) => {
                let Ok(parts) =
                    list.parse_args_with(Punctuated::<Self, Token![,]>::parse_terminated)
                else {
                    return Self::unreadable(meta);
                };
                let mut parts: Vec<Self> = parts.into_iter().collect();
                match (name(&list.path).as_deref(), parts.len()) {
                    (Some("all"), _) => Self::All(parts),
                    (Some("any"), _) => Self::Any(parts),
                    (Some("not"), 1) => match parts.pop() {
                        Some(part) => Self::Not(Box::new(part)),
                        None => Self::unreadable(meta),
                    },
                    _ => Self::unreadable(meta),
                }
            }
        }
    }

    /// The condition of a whole `cfg(…)`.
    pub fn of_attribute(meta: &Meta) -> Option<Self> {
        let Meta::List(list) = meta else { return None };
        if !list.path.is_ident("cfg") {
            return None;
        }
        let read = list.parse_args::<Self>();
        Some(read.unwrap_or_else(|_| Self::Unreadable(list.tokens.to_string())))
    }

    fn unreadable(meta: &Meta) -> Self {
        use syn::spanned::Spanned;
        let text = meta.span().source_text();
        Self::Unreadable(text.unwrap_or_else(|| "a condition".to_owned()))
    }

    /// The condition that the `cfg` attributes of an item come to.
    pub fn of_attributes(attributes: &[syn::Attribute]) -> Self {
        attributes
            .iter()
            .filter_map(|attribute| Self::of_attribute(&attribute.meta))
            .fold(Self::always(), |all, one| all.and(&one))
    }

    /// Whether the condition holds; `None` where that cannot be told.
    pub fn holds(&self, environment: Environment<'_>) -> Option<bool> {
        self.evaluate(&|cfg| match cfg {
            Self::Feature(feature) => Some(environment.features.contains(feature)),
            Self::Flag(flag) if flag == "test" => Some(environment.test),
            Self::Flag(flag) => {
                let set = environment.target.iter().any(
                    |cfg| matches!(cfg, cargo_platform::Cfg::Name(name) if name.as_str() == flag),
                );
                (set || COMPILERS.contains(&flag.as_str())).then_some(set)
            }
            Self::KeyValue(key, value) => {
                let mut known = COMPILERS.contains(&key.as_str()) || key.starts_with("target_");
                for cfg in environment.target {
                    if let cargo_platform::Cfg::KeyPair(name, set) = cfg
                        && name.as_str() == key
                    {
                        if set == value {
                            return Some(true);
                        }
                        known = true;
                    }
                }
                known.then_some(false)
            }
            _ => None,
        })
    }

    /// Whether some choice among `features`, on some target, makes the condition hold.
    pub fn can_hold(&self, features: &BTreeSet<String>) -> bool {
        let mut names = BTreeSet::new();
        self.free_features(features, &mut names);
        let names: Vec<_> = names.into_iter().collect();
        // Conditions are short. One of more features than this is given the benefit of the doubt.
        if names.len() > 16 {
            return true;
        }
        (0_u32..1 << names.len()).any(|choice| {
            let held = self.evaluate(&|cfg| match cfg {
                Self::Feature(feature) => {
                    let index = names.iter().position(|name| *name == feature);
                    Some(index.is_some_and(|index| choice & (1 << index) != 0))
                }
                _ => None,
            });
            held != Some(false)
        })
    }

    /// Features that the condition names.
    pub fn features(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        self.collect(&mut |feature| {
            found.insert(feature);
        });
        found
    }

    fn free_features<'a>(&'a self, declared: &BTreeSet<String>, found: &mut BTreeSet<&'a str>) {
        self.collect(&mut |feature| {
            if declared.contains(feature) {
                found.insert(feature);
            }
        });
    }

    fn collect<'a>(&'a self, each: &mut dyn FnMut(&'a str)) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.collect(each);
                }
            }
            Self::Not(part) => part.collect(each),
            Self::Feature(feature) => each(feature),
            Self::Flag(_) | Self::KeyValue(..) | Self::Unreadable(_) => {}
        }
    }

    /// Kleene's three values: `None` is what cannot be told.
    fn evaluate(&self, leaf: &dyn Fn(&Self) -> Option<bool>) -> Option<bool> {
        match self {
            Self::All(parts) => settled(parts.iter().map(|part| part.evaluate(leaf)), false),
            Self::Any(parts) => settled(parts.iter().map(|part| part.evaluate(leaf)), true),
            Self::Not(part) => part.evaluate(leaf).map(|held| !held),
            _ => leaf(self),
        }
    }
}

/// A part of a condition: what an attribute may hold, or `true` or `false`.
impl Parse for Cfg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(syn::LitBool) {
            return Ok(match input.parse::<syn::LitBool>()?.value {
                true => Self::always(),
                false => Self::Any(Vec::new()),
            });
        }
        input.parse::<Meta>().map(|meta| Self::read(&meta))
    }
}

/// `decisive` where any part is that; else what cannot be told, where any part cannot; else the
/// opposite.
fn settled(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut all_known = true;
    for part in parts {
        match part {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => all_known = false,
        }
    }
    all_known.then_some(!decisive)
}

impl fmt::Display for Cfg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, parts: &[Self]| {
            write!(f, "{name}(")?;
            for (index, part) in parts.iter().enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(f, "{comma}{part}")?;
            }
            write!(f, ")")
        };
        match self {
            Self::All(parts) if parts.len() == 1 => parts[0].fmt(f),
            Self::All(parts) => list(f, "all", parts),
            Self::Any(parts) => list(f, "any", parts),
            Self::Not(part) => write!(f, "not({part})"),
            Self::Feature(feature) => write!(f, "feature = \"{feature}\""),
            Self::Flag(flag) => f.write_str(flag),
            Self::KeyValue(key, value) => write!(f, "{key} = \"{value}\""),
            Self::Unreadable(text) => f.write_str(text),
        }
    }
}

impl Serialize for Cfg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cfg(text: &str) -> Cfg {
        Cfg::of_attribute(&syn::parse_str(text).unwrap()).unwrap()
    }

    fn set(features: &[&str]) -> BTreeSet<String> {
        features.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn holds(text: &str, features: &[&str], expected: Option<bool>) {
        let features = set(features);
        let target: Vec<cargo_platform::Cfg> = vec![
            "unix".parse().unwrap(),
            "target_os=\"linux\"".parse().unwrap(),
        ];
        let environment = Environment {
            features: &features,
            target: &target,
            test: false,
        };
        assert_eq!(cfg(text).holds(environment), expected, "{text}");
    }

    #[test]
    fn conditions_hold_as_the_compiler_has_it() {
        holds("cfg(feature = \"a\")", &["a"], Some(true));
        holds("cfg(feature = \"a\")", &["b"], Some(false));
        holds(
            "cfg(not(any(feature = \"a\", feature = \"b\")))",
            &["b"],
            Some(false),
        );
        holds("cfg(all())", &[], Some(true));
        holds("cfg(any())", &[], Some(false));
        holds("cfg(true)", &[], Some(true));
        holds("cfg(any(false, not(true)))", &[], Some(false));
        holds("cfg(unix)", &[], Some(true));
        holds("cfg(target_os = \"macos\")", &[], Some(false));
        holds("cfg(test)", &[], Some(false));
    }

    #[test]
    fn what_a_build_script_sets_is_not_known() {
        holds("cfg(cube_backend)", &[], None);
        holds(
            "cfg(any(cube_backend, feature = \"a\"))",
            &["a"],
            Some(true),
        );
        holds("cfg(all(cube_backend, feature = \"a\"))", &[], Some(false));
    }

    #[test]
    fn a_condition_on_what_no_manifest_declares_cannot_hold() {
        let declared = set(&["a"]);
        assert!(cfg("cfg(feature = \"a\")").can_hold(&declared));
        assert!(!cfg("cfg(feature = \"typo\")").can_hold(&declared));
        assert!(cfg("cfg(not(feature = \"typo\"))").can_hold(&declared));
        assert!(!cfg("cfg(all(feature = \"a\", not(feature = \"a\")))").can_hold(&declared));
        assert!(cfg("cfg(all(feature = \"a\", target_os = \"macos\"))").can_hold(&declared));
    }
}
