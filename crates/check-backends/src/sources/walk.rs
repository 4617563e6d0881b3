//! The walk through the module tree of a crate, from its root file.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, Token};

use super::arms::{self, Declaration};
use super::body::{Text, segments};
use super::expand::Macro;
use super::extension::{self, List};
use crate::cfg::Cfg;
use crate::error::Error;
use crate::model::{Inputs, Location, Unread};

/// Everything of interest in one crate, before names are put together.
#[derive(Default)]
pub(super) struct Raw {
    pub(super) arms: Vec<Arms>,
    pub(super) impls: Vec<Impl>,
    pub(super) extensions: Vec<Extension>,
    pub(super) functions: HashMap<String, Vec<Function>>,
    /// What a name stands for: type aliases, and names that `use … as …` gives.
    pub(super) aliases: HashMap<String, String>,
    /// Macros of the crate.
    macros: HashMap<String, (Rc<Macro>, PathBuf)>,
    /// Invocations that write items which are not seen, as text.
    pub(super) opaque: Vec<String>,
    /// How many invocations are being expanded, one inside the other.
    depth: usize,
    pub(super) unread: Vec<Unread>,
    pub(super) files: BTreeSet<PathBuf>,
}

/// `arms! { impl Subject { … } }`.
pub(super) struct Arms {
    pub(super) subject: String,
    pub(super) location: Location,
    pub(super) cfg: Cfg,
    pub(super) forward: Block,
    pub(super) gradient: Option<Block>,
}

pub(super) struct Block {
    pub(super) location: Location,
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    pub(super) cfg: Cfg,
    pub(super) names: Vec<String>,
    pub(super) location: Location,
    pub(super) arm: Listed,
    pub(super) module: Vec<String>,
}

pub(super) enum Listed {
    Functions(Vec<Text>),
    Composite(Option<Text>),
    Unsupported(String),
    ByHand,
}

/// Any `impl Trait for Type`.
pub(super) struct Impl {
    /// The trait's name, and the types it is applied to.
    pub(super) of: String,
    pub(super) arguments: Vec<TypeName>,
    pub(super) on: TypeName,
    pub(super) generics: Vec<String>,
    pub(super) methods: Vec<(String, Text)>,
    /// `const KIND`, if it is there.
    pub(super) kind: Option<Kind>,
    /// `const NAME`, if it is there.
    pub(super) name: Option<String>,
    pub(super) location: Location,
    pub(super) cfg: Cfg,
    pub(super) module: Vec<String>,
}

/// The value of `const KIND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Kernel,
    Composite,
    Unsupported(String),
    Unknown,
}

/// A type, by the last name of its path and those of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    pub(super) name: String,
    pub(super) arguments: Vec<TypeName>,
}

/// `#[backend_extension(…)] trait Name { … }`.
pub(super) struct Extension {
    pub(super) name: String,
    pub(super) location: Location,
    pub(super) cfg: Cfg,
    /// The attributes, each with the condition of its `cfg_attr`.
    pub(super) lists: Vec<(Cfg, Location, Result<List, String>)>,
    pub(super) entries: Vec<Vec<Location>>,
    pub(super) methods: Vec<Method>,
    pub(super) module: Vec<String>,
}

pub(super) struct Method {
    pub(super) name: String,
    pub(super) location: Location,
    pub(super) inputs: Inputs,
    pub(super) default: Option<Text>,
}

/// A function, by where it stands.
pub(super) struct Function {
    pub(super) module: Vec<String>,
    /// The type whose `impl` it stands in.
    pub(super) owner: Option<String>,
    pub(super) text: Text,
}

/// A file that is being read.
pub(super) struct File {
    path: PathBuf,
    display: String,
}

/// Where the walk is.
#[derive(Clone)]
pub(super) struct Scope<'a> {
    file: Rc<File>,
    /// Where files of modules declared here are looked for.
    folder: PathBuf,
    cfg: Cfg,
    module: Vec<String>,
    /// Where to point instead: at the use of a macro that stands in another file.
    instead: Option<Location>,
    /// How a path is shown.
    show: &'a dyn Fn(&Path) -> String,
}

impl Scope<'_> {
    pub(super) fn location(&self, of: &impl syn::spanned::Spanned) -> Location {
        self.at(of.span())
    }

    fn at(&self, span: Span) -> Location {
        if let Some(instead) = &self.instead {
            return instead.clone();
        }
        let (start, end) = (span.start(), span.end());
        Location {
            file: self.file.display.clone(),
            line: start.line,
            column: start.column + 1,
            end_line: end.line,
            end_column: end.column + 1,
            path: self.file.path.clone(),
        }
    }
}

/// Reads a crate from its root file.
///
/// # Errors
///
/// [`Error::Read`] and [`Error::Parse`], for the root file. What is wrong with any other file stands
/// in [`Raw::unread`], since a condition may keep it out of the build.
pub(super) fn read_crate(
    root: &Path,
    raw: &mut Raw,
    show: &dyn Fn(&Path) -> String,
) -> Result<(), Error> {
    let folder = root.parent().unwrap_or(root).to_path_buf();
    let file = Rc::new(File {
        path: root.to_path_buf(),
        display: show(root),
    });
    let scope = Scope {
        file,
        folder,
        cfg: Cfg::always(),
        module: Vec::new(),
        instead: None,
        show,
    };
    for round in 0..2 {
        if let Some(items) = read_file(root, raw, &scope)? {
            walk(&items, &scope, raw);
        }
        // By its path a macro can be used above its definition: once all of them are known, another
        // walk sees what it writes. The same goes for names.
        if round == 0 && !raw.opaque.is_empty() && !raw.macros.is_empty() {
            *raw = Raw {
                macros: std::mem::take(&mut raw.macros),
                aliases: std::mem::take(&mut raw.aliases),
                ..Raw::default()
            };
        } else {
            break;
        }
    }
    Ok(())
}

/// The items of a file, or nothing where it is being read already.
fn read_file(path: &Path, raw: &mut Raw, scope: &Scope<'_>) -> Result<Option<Vec<Item>>, Error> {
    let key = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if !raw.files.insert(key) {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
        file: path.to_path_buf(),
        source,
    })?;
    match parse(&text) {
        Ok(file) => Ok(Some(file.items)),
        Err(error) => Err(Error::Parse {
            file: scope.file.display.clone(),
            line: error.span().start().line,
            reason: error.to_string(),
        }),
    }
}

/// Parses a file, unless it is nested so deeply that a parser by recursion runs out of stack.
pub(crate) fn parse(text: &str) -> syn::Result<syn::File> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = match text.starts_with("#!") && !text.starts_with("#![") {
        // The line break stays, so that line numbers do.
        true => text.find('\n').map_or("", |end| &text[end..]),
        false => text,
    };
    let tokens: TokenStream = text.parse()?;
    if let Some(span) = too_deep(&tokens) {
        return Err(syn::Error::new(
            span,
            "brackets or operators are nested too deep to be read",
        ));
    }
    syn::parse2(tokens)
}

/// Where brackets, or operators in a row, are nested deeper than anyone writes by hand.
fn too_deep(tokens: &TokenStream) -> Option<Span> {
    const DEEPEST: usize = 256;
    const LONGEST: usize = 1024;
    let mut open = vec![tokens.clone().into_iter()];
    let mut run = 0;
    while let Some(innermost) = open.last_mut() {
        match innermost.next() {
            None => {
                open.pop();
            }
            Some(TokenTree::Group(group)) => {
                if open.len() == DEEPEST {
                    return Some(group.span());
                }
                open.push(group.stream().into_iter());
            }
            Some(TokenTree::Punct(punct)) => {
                run += 1;
                if run == LONGEST {
                    return Some(punct.span());
                }
            }
            Some(_) => run = 0,
        }
    }
    None
}

pub(super) fn walk(items: &[Item], scope: &Scope<'_>, raw: &mut Raw) {
    // Names come first: what they stand for matters to items above them, too.
    for item in items {
        match item {
            Item::Use(import) => collect_renames(&import.tree, raw),
            Item::Type(alias) => {
                if let Some(name) = TypeName::of(&alias.ty) {
                    raw.aliases.insert(alias.ident.to_string(), name.name);
                }
            }
            Item::Macro(item) if item.mac.path.is_ident("macro_rules") => {
                if let (Some(name), Some(rules)) =
                    (&item.ident, Macro::read(item.mac.tokens.clone()))
                {
                    let defined = (Rc::new(rules), scope.file.path.clone());
                    raw.macros.insert(name.to_string(), defined);
                }
            }
            _ => {}
        }
    }
    for item in items {
        walk_item(item, scope, raw);
    }
}

fn walk_item(item: &Item, scope: &Scope<'_>, raw: &mut Raw) {
    match item {
        Item::Mod(module) => walk_module(module, scope, raw),
        Item::Fn(function) => {
            let text = Text::of_block(&function.block, scope);
            add_function(raw, &function.sig.ident, scope, None, text);
            walk_block(&function.block, scope, raw);
        }
        Item::Impl(item) => walk_impl(item, scope, raw),
        Item::Trait(item) => walk_trait(item, scope, raw),
        Item::Macro(item) if item.ident.is_some() => {}
        Item::Macro(item) => {
            let scope = under(scope, &item.attrs);
            walk_macro(&item.mac, &scope, raw);
        }
        Item::Const(item) => walk_expression(&item.expr, scope, raw),
        _ => {}
    }
}

/// The scope of what carries these attributes.
fn under<'a>(scope: &Scope<'a>, attributes: &[Attribute]) -> Scope<'a> {
    let mut scope = scope.clone();
    scope.cfg = scope.cfg.and(&Cfg::of_attributes(attributes));
    scope
}

fn walk_module(module: &syn::ItemMod, scope: &Scope<'_>, raw: &mut Raw) {
    let mut scope = under(scope, &module.attrs);
    let name = module.ident.to_string();
    let name = name.trim_start_matches("r#").to_owned();
    scope.module.push(name.clone());
    let paths = paths_of(&module.attrs);
    if let Some((_, items)) = &module.content {
        match paths.first() {
            Some((_, path)) => scope.folder.push(path),
            None => scope.folder.push(&name),
        }
        walk(items, &scope, raw);
        return;
    }
    // `#[path]` in a file starts from the file's own folder, outside inline modules.
    let beside = scope
        .file
        .path
        .parent()
        .unwrap_or(Path::new(""))
        .to_path_buf();
    let inline = scope.module.len() > 1 && !scope.folder.starts_with(&beside);
    for (cfg, path) in &paths {
        let mut scope = scope.clone();
        scope.cfg = scope.cfg.and(cfg);
        let base = if inline {
            scope.folder.clone()
        } else {
            beside.clone()
        };
        let path = base.join(path);
        let folder = path.parent().unwrap_or(&path).to_path_buf();
        walk_file(path, folder, &module.ident, &scope, raw);
    }
    // With every `#[path]` behind a condition, the usual places serve where none holds.
    if paths.iter().any(|(cfg, _)| cfg.is_always()) {
        return;
    }
    if !paths.is_empty() {
        let others = paths.into_iter().map(|(cfg, _)| cfg).collect();
        scope.cfg = scope.cfg.and(&Cfg::Not(Box::new(Cfg::Any(others))));
    }
    let folder = scope.folder.join(&name);
    let flat = scope.folder.join(format!("{name}.rs"));
    let path = if flat.is_file() {
        flat
    } else {
        folder.join("mod.rs")
    };
    walk_file(path, folder, &module.ident, &scope, raw);
}

fn walk_file(
    path: PathBuf,
    folder: PathBuf,
    at: &impl syn::spanned::Spanned,
    scope: &Scope<'_>,
    raw: &mut Raw,
) {
    let location = scope.location(at);
    let mut scope = scope.clone();
    scope.file = Rc::new(File {
        display: (scope.show)(&path),
        path: path.clone(),
    });
    scope.folder = folder;
    match read_file(&path, raw, &scope) {
        Ok(Some(items)) => walk(&items, &scope, raw),
        Ok(None) => {}
        Err(error) => {
            raw.unread.push(Unread {
                location,
                cfg: scope.cfg,
                reason: error.to_string(),
                is_error: true,
            });
        }
    }
}

/// The values of `#[path = "…"]`, each with its condition.
fn paths_of(attributes: &[Attribute]) -> Vec<(Cfg, String)> {
    let mut found = Vec::new();
    for attribute in attributes {
        for (cfg, meta) in under_cfg_attr(&attribute.meta) {
            if let Meta::NameValue(pair) = &meta
                && pair.path.is_ident("path")
                && let Expr::Lit(ExprLit {
                    lit: Lit::Str(path),
                    ..
                }) = &pair.value
            {
                found.push((cfg, path.value()));
            }
        }
    }
    found
}

/// An attribute, or those that a `cfg_attr` holds, each with its condition.
fn under_cfg_attr(meta: &Meta) -> Vec<(Cfg, Meta)> {
    let Meta::List(list) = meta else {
        return vec![(Cfg::always(), meta.clone())];
    };
    if !list.path.is_ident("cfg_attr") {
        return vec![(Cfg::always(), meta.clone())];
    }
    type Metas = syn::punctuated::Punctuated<Meta, Token![,]>;
    let Ok(parts) = list.parse_args_with(Metas::parse_terminated) else {
        return Vec::new();
    };
    let mut parts = parts.into_iter();
    let Some(condition) = parts.next() else {
        return Vec::new();
    };
    let condition = Cfg::read(&condition);
    parts
        .flat_map(|part| under_cfg_attr(&part))
        .map(|(cfg, meta)| (condition.and(&cfg), meta))
        .collect()
}

fn collect_renames(tree: &syn::UseTree, raw: &mut Raw) {
    match tree {
        syn::UseTree::Path(path) => collect_renames(&path.tree, raw),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                collect_renames(tree, raw);
            }
        }
        syn::UseTree::Rename(rename) if rename.rename != "_" => {
            raw.aliases
                .insert(rename.rename.to_string(), rename.ident.to_string());
        }
        _ => {}
    }
}

fn add_function(
    raw: &mut Raw,
    name: &syn::Ident,
    scope: &Scope<'_>,
    owner: Option<String>,
    text: Text,
) {
    let function = Function {
        module: scope.module.clone(),
        owner,
        text,
    };
    raw.functions
        .entry(name.to_string())
        .or_default()
        .push(function);
}

fn walk_impl(item: &syn::ItemImpl, scope: &Scope<'_>, raw: &mut Raw) {
    let scope = under(scope, &item.attrs);
    let on = TypeName::of(&item.self_ty);
    let (mut methods, mut kind, mut name) = (Vec::new(), None, None);
    for inner in &item.items {
        match inner {
            syn::ImplItem::Fn(function) => {
                let text = Text::of_block(&function.block, &scope);
                if item.trait_.is_none() {
                    let owner = on.as_ref().map(|on| on.name.clone());
                    add_function(raw, &function.sig.ident, &scope, owner, text.clone());
                }
                methods.push((function.sig.ident.to_string(), text));
                walk_block(&function.block, &scope, raw);
            }
            syn::ImplItem::Const(constant) if constant.ident == "KIND" => {
                kind = Some(Kind::of(&constant.expr));
            }
            syn::ImplItem::Const(constant) if constant.ident == "NAME" => {
                if let Expr::Lit(ExprLit {
                    lit: Lit::Str(text),
                    ..
                }) = &constant.expr
                {
                    name = Some(text.value());
                }
            }
            _ => {}
        }
    }
    let (Some((negative, path, _)), Some(on)) = (&item.trait_, on) else {
        return;
    };
    let Some(last) = path.segments.last() else {
        return;
    };
    if negative.is_some() {
        return;
    }
    let of = last.ident.to_string();
    // Where an error should point: the header, not the whole body.
    let mut location = scope.location(&item.impl_token);
    let end = scope.location(&item.self_ty);
    (location.end_line, location.end_column) = (end.end_line, end.end_column);
    raw.impls.push(Impl {
        of,
        arguments: TypeName::of_arguments(&last.arguments),
        on,
        generics: item
            .generics
            .type_params()
            .map(|param| param.ident.to_string())
            .collect(),
        methods,
        kind,
        name,
        location,
        cfg: scope.cfg.clone(),
        module: scope.module.clone(),
    });
}

impl TypeName {
    fn of(ty: &syn::Type) -> Option<Self> {
        match ty {
            syn::Type::Path(path) => {
                let last = path.path.segments.last()?;
                Some(Self {
                    name: last.ident.to_string(),
                    arguments: Self::of_arguments(&last.arguments),
                })
            }
            syn::Type::Paren(inner) => Self::of(&inner.elem),
            syn::Type::Group(inner) => Self::of(&inner.elem),
            syn::Type::Reference(inner) => Self::of(&inner.elem),
            _ => None,
        }
    }

    fn of_arguments(arguments: &syn::PathArguments) -> Vec<Self> {
        let syn::PathArguments::AngleBracketed(arguments) = arguments else {
            return Vec::new();
        };
        let types = arguments.args.iter().filter_map(|argument| match argument {
            syn::GenericArgument::Type(ty) => Self::of(ty),
            _ => None,
        });
        types.collect()
    }
}

impl Kind {
    fn of(expression: &Expr) -> Self {
        match expression {
            Expr::Call(call) => call.args.first().map_or(Self::Unknown, Self::of),
            Expr::Path(path) => match segments(&path.path).last().map(String::as_str) {
                Some("None") => Self::None,
                Some("Kernel") => Self::Kernel,
                Some("Composite") => Self::Composite,
                _ => Self::Unknown,
            },
            Expr::Struct(value) => {
                let is = value
                    .path
                    .segments
                    .last()
                    .is_some_and(|last| last.ident == "Unsupported");
                let reason = value.fields.iter().find_map(|field| match &field.expr {
                    Expr::Lit(ExprLit {
                        lit: Lit::Str(text),
                        ..
                    }) => Some(text.value()),
                    _ => None,
                });
                match is {
                    true => Self::Unsupported(reason.unwrap_or_default()),
                    false => Self::Unknown,
                }
            }
            _ => Self::Unknown,
        }
    }
}

fn walk_trait(item: &syn::ItemTrait, scope: &Scope<'_>, raw: &mut Raw) {
    let scope = under(scope, &item.attrs);
    let mut methods = Vec::new();
    for inner in &item.items {
        let syn::TraitItem::Fn(function) = inner else {
            continue;
        };
        if let Some(block) = &function.default {
            walk_block(block, &scope, raw);
        }
        methods.push(Method {
            name: function.sig.ident.to_string(),
            location: scope.location(&function.sig.ident),
            inputs: extension::inputs(&function.sig.inputs),
            default: function
                .default
                .as_ref()
                .map(|block| Text::of_block(block, &scope)),
        });
    }
    let (mut lists, mut entries) = (Vec::new(), Vec::new());
    for attribute in &item.attrs {
        for (cfg, meta) in under_cfg_attr(&attribute.meta) {
            let Meta::List(list) = &meta else { continue };
            let Some(last) = list.path.segments.last() else {
                continue;
            };
            let last = last.ident.to_string();
            let renamed = raw
                .aliases
                .get(&last)
                .is_some_and(|name| name == "backend_extension");
            if last != "backend_extension" && !renamed {
                continue;
            }
            let parsed = list.parse_args::<List>().map_err(|error| error.to_string());
            let places = parsed.iter().flat_map(|list| &list.0);
            entries.push(places.map(|entry| scope.at(entry.span)).collect());
            lists.push((cfg, scope.location(attribute), parsed));
        }
    }
    if lists.is_empty() {
        return;
    }
    raw.extensions.push(Extension {
        name: item.ident.to_string(),
        location: scope.location(&item.ident),
        cfg: scope.cfg.clone(),
        lists,
        entries,
        methods,
        module: scope.module.clone(),
    });
}

fn walk_macro(invoked: &syn::Macro, scope: &Scope<'_>, raw: &mut Raw) {
    let Some(last) = invoked.path.segments.last() else {
        return;
    };
    let name = last.ident.to_string();
    let name = raw.aliases.get(&name).cloned().unwrap_or(name);
    match name.as_str() {
        "arms" => walk_arms(invoked, scope, raw),
        "include" => walk_include(invoked, scope, raw),
        name => {
            let defined = raw.macros.get(name).filter(|_| raw.depth < 32).cloned();
            let items = defined.and_then(|(rules, file)| {
                let tokens = rules.expand(&invoked.tokens)?;
                Some((syn::parse2::<syn::File>(tokens).ok()?, file))
            });
            let Some((written, file)) = items else {
                walk_opaque(invoked, scope, raw);
                return;
            };
            let mut scope = scope.clone();
            if file != scope.file.path {
                scope.instead = Some(scope.location(&invoked.path));
            }
            raw.depth += 1;
            walk(&written.items, &scope, raw);
            raw.depth -= 1;
        }
    }
}

/// A macro whose items are not seen.
fn walk_opaque(invoked: &syn::Macro, scope: &Scope<'_>, raw: &mut Raw) {
    let text = invoked.tokens.to_string();
    if text.contains("backend_extension") || text.contains("arms !") {
        raw.unread.push(Unread {
            location: scope.location(&invoked.path),
            cfg: scope.cfg.clone(),
            reason: "an op is declared inside a macro that cannot be expanded here".to_owned(),
            is_error: false,
        });
    }
    raw.opaque.push(text);
}

fn walk_arms(invoked: &syn::Macro, scope: &Scope<'_>, raw: &mut Raw) {
    let declaration: Declaration = match invoked.parse_body() {
        Ok(declaration) => declaration,
        Err(error) => {
            // Some other macro of that name, unless it starts as ours does.
            let ours = invoked.tokens.clone().into_iter().next();
            if ours.is_some_and(|first| first.to_string() == "impl") {
                raw.unread.push(Unread {
                    location: scope.at(error.span()),
                    cfg: scope.cfg.clone(),
                    reason: format!("cannot read this `arms!`: {error}"),
                    is_error: false,
                });
            }
            return;
        }
    };
    let Some(subject) = TypeName::of(&declaration.op) else {
        return;
    };
    let block = |lines: arms::Lines| Block {
        location: scope.at(lines.span),
        lines: lines
            .lines
            .into_iter()
            .map(|line| read_line(line, scope))
            .collect(),
    };
    raw.arms.push(Arms {
        subject: subject.name,
        location: scope.location(&declaration.op),
        cfg: scope.cfg.clone(),
        forward: block(declaration.forward),
        gradient: declaration.gradient.map(block),
    });
}

fn read_line(line: arms::Line, scope: &Scope<'_>) -> Line {
    Line {
        cfg: line.cfg,
        names: line.names.iter().map(ToString::to_string).collect(),
        location: scope.at(line.span),
        arm: match line.arm {
            arms::Listed::Functions(functions) => Listed::Functions(
                functions
                    .iter()
                    .map(|function| Text::of_function(function, scope))
                    .collect(),
            ),
            arms::Listed::Composite(function) => {
                Listed::Composite(function.map(|function| Text::of_function(&function, scope)))
            }
            arms::Listed::Unsupported(reason) => Listed::Unsupported(reason),
            arms::Listed::ByHand => Listed::ByHand,
        },
        module: scope.module.clone(),
    }
}

fn walk_include(invoked: &syn::Macro, scope: &Scope<'_>, raw: &mut Raw) {
    match invoked.parse_body::<syn::LitStr>() {
        Ok(path) => {
            let beside = scope.file.path.parent().unwrap_or(Path::new(""));
            let folder = scope.folder.clone();
            walk_file(beside.join(path.value()), folder, &invoked.path, scope, raw);
        }
        // Generated by a build script, as a rule: what is in there is not known.
        Err(_) => raw.unread.push(Unread {
            location: scope.location(&invoked.path),
            cfg: scope.cfg.clone(),
            reason: "the file that is included here has no fixed name, so what it declares is not \
                     known"
                .to_owned(),
            is_error: false,
        }),
    }
}

/// Items may stand in any block.
fn walk_block(block: &syn::Block, scope: &Scope<'_>, raw: &mut Raw) {
    Blocks { scope, raw }.visit_block(block);
}

fn walk_expression(expression: &Expr, scope: &Scope<'_>, raw: &mut Raw) {
    if matches!(expression, Expr::Block(_)) {
        Blocks { scope, raw }.visit_expr(expression);
    }
}

struct Blocks<'a, 'b> {
    scope: &'a Scope<'b>,
    raw: &'a mut Raw,
}

impl Visit<'_> for Blocks<'_, '_> {
    fn visit_item(&mut self, item: &Item) {
        walk_item(item, self.scope, self.raw);
    }
    fn visit_stmt_macro(&mut self, statement: &syn::StmtMacro) {
        // In a function, `include!` brings an expression.
        if !statement.mac.path.is_ident("include") {
            let scope = under(self.scope, &statement.attrs);
            walk_macro(&statement.mac, &scope, self.raw);
        }
        visit::visit_stmt_macro(self, statement);
    }
}
