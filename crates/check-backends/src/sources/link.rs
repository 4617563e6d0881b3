//! Puts the names that a crate's items use together into ops and their arms.

use super::body::{Stub, Text};
use super::walk::{Arms, Block as RawBlock, Extension, Impl, Kind, Line, Listed, Raw, TypeName};
use crate::catalogue::{Backend, Catalogue};
use crate::cfg::Cfg;
use crate::model::{
    Arm, Block, Body, Declared, Dialect, Inputs, Location, Method, Misnamed, Op, Serves, Stray,
    Unread, Wrappers,
};

/// Adds the ops of a crate to what its package declares.
pub(super) fn link(raw: Raw, catalogue: &Catalogue, declared: &mut Declared) {
    let linker = Linker {
        raw: &raw,
        catalogue,
    };
    let mut found = linker.armature(declared);
    for extension in &raw.extensions {
        found.push(linker.extension(extension, declared));
    }
    // A file may belong to several crates of its package; its ops are the same ones.
    found.retain(|op| {
        declared
            .ops
            .iter()
            .all(|known| known.location != op.location || known.subject != op.subject)
    });
    declared.ops.extend(found);
    declared.unread.extend(raw.unread);
    declared.files.extend(raw.files);
}

struct Linker<'a> {
    raw: &'a Raw,
    catalogue: &'a Catalogue,
}

impl Linker<'_> {
    /// What a name stands for, through aliases.
    fn name<'a>(&'a self, mut name: &'a str) -> &'a str {
        for _ in 0..8 {
            match self.raw.aliases.get(name) {
                // The catalogue's own names are what they are, even if an alias has one.
                Some(next) if next != name && self.catalogue.of_type(name).is_empty() => {
                    name = next;
                }
                _ => break,
            }
        }
        name
    }

    /// Which backends a type stands for, among the generics of its `impl`.
    fn serves(&self, ty: &TypeName, generics: &[String]) -> Vec<Serves> {
        if generics.contains(&ty.name) {
            return vec![Serves::Every];
        }
        let name = self.name(&ty.name);
        let backends = self.catalogue.of_type(name);
        match backends.is_empty() {
            true => vec![Serves::Unknown(ty.name.clone())],
            false => backends.into_iter().map(Serves::Backend).collect(),
        }
    }

    fn armature(&self, declared: &mut Declared) -> Vec<Op> {
        let mut ops = Vec::new();
        for arms in &self.raw.arms {
            ops.push(self.op(&arms.subject, Some(arms)));
        }
        for op in self.raw.impls.iter().filter(|item| item.of == "Op") {
            let subject = &op.on.name;
            let by_macro = self
                .raw
                .arms
                .iter()
                .any(|declared| declared.subject == *subject);
            // Burn, and any other crate, may have a trait of that name.
            let by_hand = || {
                self.raw.impls.iter().any(|item| {
                    item.on.name == *subject
                        && ["Arm", "GradientArm", "Rest", "Composite"].contains(&item.of.as_str())
                })
            };
            if !by_macro && (by_hand() || op.name.is_some()) {
                ops.push(self.op(subject, None));
            }
        }
        for op in &ops {
            let arms = op.forward.arms.iter().chain(&op.gradient.arms);
            let by_macro = self.raw.arms.iter().any(|one| one.subject == op.subject);
            for arm in arms {
                let Serves::Unknown(name) = &arm.serves else {
                    continue;
                };
                let (location, cfg) = (arm.location.clone(), op.cfg.and(&arm.cfg));
                match by_macro {
                    true => declared.misnamed.push(Misnamed {
                        subject: op.name.clone(),
                        name: name.clone(),
                        location,
                        cfg,
                    }),
                    false => declared.unread.push(Unread {
                        location,
                        cfg,
                        reason: format!("which backend `{name}` is cannot be told"),
                        is_error: false,
                    }),
                }
            }
        }
        ops
    }

    fn op(&self, subject: &str, declared: Option<&Arms>) -> Op {
        let on_subject = |of: &'static str| {
            self.raw
                .impls
                .iter()
                .filter(move |item| item.of == of && item.on.name == *subject)
        };
        let op = on_subject("Op").next();
        let location = declared
            .map(|declared| declared.location.clone())
            .or_else(|| op.map(|op| op.location.clone()))
            .unwrap_or_else(|| unreachable!("an op comes from one of the two"));
        let cfg = declared.map(|declared| declared.cfg.clone());
        let cfg = cfg
            .or_else(|| op.map(|op| op.cfg.clone()))
            .unwrap_or(Cfg::always());

        let empty = || Block {
            location: location.clone(),
            arms: Vec::new(),
            rest: None,
        };
        let forward = declared.map(|declared| self.block(&declared.forward, subject, "Arm"));
        let mut forward = forward.unwrap_or_else(empty);
        let gradient = declared.and_then(|declared| declared.gradient.as_ref());
        let has_gradient = gradient.is_some();
        let gradient = gradient.map(|block| self.block(block, subject, "GradientArm"));
        let mut gradient = gradient.unwrap_or_else(empty);

        for (of, block) in [("Arm", &mut forward), ("GradientArm", &mut gradient)] {
            for item in on_subject(of) {
                let Some(argument) = item.arguments.first() else {
                    continue;
                };
                for serves in self.serves(argument, &item.generics) {
                    // A line `=> impl` of `arms!` stands for it already.
                    let listed = |arm: &Arm| arm.serves == serves;
                    if declared.is_none() || !block.arms.iter().any(listed) {
                        block.arms.push(self.by_hand(item, serves));
                    }
                }
            }
        }
        if let (None, Some(rest)) = (declared, on_subject("Rest").next()) {
            forward.rest = match &rest.kind {
                Some(Kind::None) => None,
                _ => Some(self.by_hand(rest, Serves::Every)),
            };
        }
        // What Burn differentiates is the composite.
        if !has_gradient
            && gradient.rest.is_none()
            && declared.is_some()
            && let Some(rest) = &forward.rest
            && !matches!(rest.body, Body::Unsupported(_))
        {
            gradient.rest = Some(Arm {
                body: Body::Composite,
                ..rest.clone()
            });
        }
        let name = op.and_then(|op| op.name.clone());
        Op {
            dialect: Dialect::Armature,
            methods: vec![Method {
                name: name.clone().unwrap_or_else(|| subject.to_owned()),
                location: location.clone(),
                inputs: Inputs::Float,
                default: None,
                inherited: false,
            }],
            name: name.unwrap_or_else(|| subject.to_owned()),
            subject: subject.to_owned(),
            location,
            cfg,
            forward,
            gradient,
            wrappers: Wrappers::default(),
        }
    }

    /// An arm that a hand-written `impl` makes.
    fn by_hand(&self, item: &Impl, serves: Serves) -> Arm {
        let mut body = match &item.kind {
            Some(Kind::Composite) => Body::Composite,
            Some(Kind::Unsupported(reason)) => Body::Unsupported(reason.clone()),
            Some(Kind::Unknown | Kind::None) => {
                Body::Unknown("its `KIND` is not written out".to_owned())
            }
            Some(Kind::Kernel) | None => Body::Kernel,
        };
        if !matches!(body, Body::Unsupported(_)) {
            for (_, text) in &item.methods {
                let stub = self.stub(text, &item.module, &item.on.name);
                body = stub.map_or(body, |(panic, location)| Body::Stub(panic, location));
            }
        }
        Arm {
            serves,
            cfg: item.cfg.clone(),
            body,
            location: item.location.clone(),
        }
    }

    fn block(&self, block: &RawBlock, subject: &str, of: &str) -> Block {
        let mut arms = Vec::new();
        let mut rest = None;
        for line in &block.lines {
            if line.names.is_empty() {
                rest = Some(self.line(line, Serves::Every, subject, of));
                continue;
            }
            for name in &line.names {
                let serves = match self.catalogue.listed(name) {
                    Some(backend) => Serves::Backend(backend),
                    None => Serves::Unknown(name.clone()),
                };
                arms.push(self.line(line, serves, subject, of));
            }
        }
        Block {
            location: block.location.clone(),
            arms,
            rest,
        }
    }

    fn line(&self, line: &Line, serves: Serves, subject: &str, of: &str) -> Arm {
        let is_rest = serves == Serves::Every;
        let body = match &line.arm {
            Listed::Unsupported(reason) => Body::Unsupported(reason.clone()),
            Listed::Composite(function) => {
                let text = function.as_ref().map(|text| (text, line.module.clone()));
                let own = || {
                    let item = self
                        .raw
                        .impls
                        .iter()
                        .find(|item| item.of == "Composite" && item.on.name == *subject)?;
                    Some((&item.methods.first()?.1, item.module.clone()))
                };
                // A function on the rest line serves every line that says `composite`.
                let text = text.or_else(own);
                let stub = text.and_then(|(text, module)| self.stub(text, &module, subject));
                stub.map_or(Body::Composite, |(panic, location)| {
                    Body::Stub(panic, location)
                })
            }
            Listed::Functions(functions) => {
                let mut stubs = functions
                    .iter()
                    .filter_map(|text| self.stub(text, &line.module, subject));
                match stubs.next() {
                    Some((panic, location)) => Body::Stub(panic, location),
                    // At the rest, functions are generic: built from Burn's primitive ops.
                    None if is_rest => Body::Composite,
                    None => Body::Kernel,
                }
            }
            Listed::ByHand => {
                let item = self.raw.impls.iter().find(|item| {
                    item.of == of
                        && item.on.name == *subject
                        && item.arguments.first().is_some_and(|argument| {
                            let served = self.serves(argument, &item.generics);
                            served.contains(&serves) || served.contains(&Serves::Every)
                        })
                });
                match item {
                    Some(item) => self.by_hand(item, serves.clone()).body,
                    None => Body::Missing,
                }
            }
        };
        Arm {
            serves,
            cfg: line.cfg.clone(),
            body,
            location: line.location.clone(),
        }
    }

    /// The panic that a function comes to: its own, or that of a function of this crate which it
    /// is, or does nothing but call.
    fn stub(&self, text: &Text, module: &[String], subject: &str) -> Stub {
        self.stub_through(text, module, subject, 4)
    }

    fn stub_through(&self, text: &Text, module: &[String], subject: &str, left: usize) -> Stub {
        if text.stub.is_some() || left == 0 {
            return text.stub.clone();
        }
        let path = text.path.as_ref()?;
        let (name, before) = path.split_last()?;
        let candidates = self.raw.functions.get(self.name(name))?;
        let relative: Vec<&String> = before
            .iter()
            .filter(|part| !["crate", "self", "super"].contains(&part.as_str()))
            .collect();
        let mut matching = candidates
            .iter()
            .filter(|function| match relative.as_slice() {
                [] => function.owner.is_none() && (function.module == module || !before.is_empty()),
                [.., last] => {
                    let last = if *last == "Self" {
                        subject
                    } else {
                        self.name(last)
                    };
                    match &function.owner {
                        Some(owner) => owner == last,
                        None => {
                            function.module.len() >= relative.len()
                                && function
                                    .module
                                    .iter()
                                    .rev()
                                    .zip(relative.iter().rev())
                                    .all(|(one, other)| one == *other)
                        }
                    }
                }
            });
        let found = match matching.next() {
            Some(first) => first,
            // Imported from another module of the crate, if it has only one of that name.
            None if relative.is_empty() && candidates.len() == 1 => &candidates[0],
            None => return None,
        };
        if matching.next().is_some() {
            return None;
        }
        let owner = found.owner.as_deref().unwrap_or(subject);
        self.stub_through(&found.text, &found.module, owner, left - 1)
    }

    fn extension(&self, extension: &Extension, declared: &mut Declared) -> Op {
        let mut arms = Vec::new();
        let mut wrappers = Wrappers::default();
        for ((condition, location, list), places) in extension.lists.iter().zip(&extension.entries)
        {
            let list = match list {
                Ok(list) => list,
                Err(reason) => {
                    declared.unread.push(Unread {
                        location: location.clone(),
                        cfg: extension.cfg.and(condition),
                        reason: format!("cannot read this `backend_extension`: {reason}"),
                        is_error: false,
                    });
                    continue;
                }
            };
            for (entry, place) in list.0.iter().zip(places) {
                let cfg = condition.and(&entry.cfg);
                match entry.name.as_str() {
                    "Autodiff" => {
                        wrappers
                            .autodiff
                            .push(self.wrapper(extension, "Autodiff", cfg, place));
                    }
                    "Fusion" => {
                        let mut arm = self.wrapper(extension, "Fusion", cfg, place);
                        // The macro writes it.
                        if matches!(arm.body, Body::Missing | Body::Unknown(_)) {
                            arm.body = Body::Kernel;
                        }
                        wrappers.fusion.push(arm);
                    }
                    name => match self.catalogue.listed(name) {
                        Some(backend) => {
                            arms.push(self.backend_arm(extension, backend, cfg, place))
                        }
                        None => declared.misnamed.push(Misnamed {
                            subject: extension.name.clone(),
                            name: name.to_owned(),
                            location: place.clone(),
                            cfg: extension.cfg.and(condition),
                        }),
                    },
                }
            }
        }
        if wrappers.fusion.is_empty() {
            let by_hand = self
                .impls_of(extension)
                .filter(|item| self.name(&item.on.name) == "Fusion");
            wrappers.fusion_by_hand.extend(by_hand.map(|item| Arm {
                serves: Serves::Every,
                cfg: item.cfg.clone(),
                body: self.body_of(extension, item),
                location: item.location.clone(),
            }));
        }
        self.strays(extension, &arms, declared);
        let location = extension
            .lists
            .first()
            .map(|(_, location, _)| location.clone());
        let location = location.unwrap_or_else(|| extension.location.clone());
        let methods = extension.methods.iter().map(|method| Method {
            name: method.name.clone(),
            location: method.location.clone(),
            inputs: method.inputs,
            inherited: self.impls_of(extension).any(|item| {
                let inherited = self.inherited(extension, item);
                inherited.iter().any(|one| one.name == method.name)
            }),
            default: method.default.as_ref().map(|text| {
                match self.stub(text, &extension.module, &extension.name) {
                    Some((panic, location)) => Body::Stub(panic, location),
                    None => Body::Composite,
                }
            }),
        });
        Op {
            dialect: Dialect::BackendExtension,
            name: extension.name.clone(),
            subject: extension.name.clone(),
            location: extension.location.clone(),
            cfg: extension.cfg.clone(),
            methods: methods.collect(),
            forward: Block {
                location: location.clone(),
                arms,
                rest: None,
            },
            gradient: Block {
                location,
                arms: Vec::new(),
                rest: None,
            },
            wrappers,
        }
    }

    /// The arm of a listed backend, by what implements the trait on it.
    fn backend_arm(
        &self,
        extension: &Extension,
        backend: Backend,
        cfg: Cfg,
        place: &Location,
    ) -> Arm {
        let item = self.impls_of(extension).find(|item| {
            let served = self.serves(&item.on, &item.generics);
            served.contains(&Serves::Backend(backend)) || served.contains(&Serves::Every)
        });
        let body = match item {
            Some(item) => self.body_of(extension, item),
            None if self.impls_of(extension).any(|item| self.is_unknown(item)) => {
                Body::Unknown("an `impl` of the trait is on a type that is not known".to_owned())
            }
            None => self.missing(extension),
        };
        Arm {
            serves: Serves::Backend(backend),
            cfg,
            body,
            location: place.clone(),
        }
    }

    fn wrapper(&self, extension: &Extension, name: &str, cfg: Cfg, place: &Location) -> Arm {
        let item = self
            .impls_of(extension)
            .find(|item| self.name(&item.on.name) == name);
        let body = match item {
            Some(item) => self.body_of(extension, item),
            None => self.missing(extension),
        };
        Arm {
            serves: Serves::Every,
            cfg,
            body,
            location: place.clone(),
        }
    }

    /// No `impl` is seen; a macro that cannot be expanded may write it.
    fn missing(&self, extension: &Extension) -> Body {
        match self
            .raw
            .opaque
            .iter()
            .any(|text| text.contains(extension.name.as_str()))
        {
            true => {
                Body::Unknown("a macro that cannot be expanded here may implement it".to_owned())
            }
            false => Body::Missing,
        }
    }

    fn impls_of<'a>(&'a self, extension: &'a Extension) -> impl Iterator<Item = &'a Impl> {
        self.raw
            .impls
            .iter()
            .filter(|item| self.name(&item.of) == extension.name)
    }

    fn is_unknown(&self, item: &Impl) -> bool {
        let wrapper = ["Autodiff", "Fusion"].contains(&self.name(&item.on.name));
        let served = self.serves(&item.on, &item.generics);
        !wrapper
            && served
                .iter()
                .any(|serves| matches!(serves, Serves::Unknown(_)))
    }

    /// An `impl` without methods of its own runs the trait's; those are built from Burn's
    /// primitive ops.
    fn body_of(&self, extension: &Extension, item: &Impl) -> Body {
        for (_, text) in &item.methods {
            if let Some((panic, location)) = self.stub(text, &item.module, &item.on.name) {
                return Body::Stub(panic, location);
            }
        }
        let inherited = self.inherited(extension, item);
        let mut panics = inherited.iter().filter_map(|method| {
            self.stub(method.default.as_ref()?, &extension.module, &extension.name)
        });
        // A default that panics with a text of its own says that it is not there for whoever does not
        // write it: a refusal of one method, unless nothing else is left.
        let refused = panics.clone().count() == extension.methods.len();
        let unfinished = |panic: &str| ["todo!", "unimplemented!"].contains(&panic);
        if let Some((panic, location)) =
            panics.find(|(panic, _)| refused || unfinished(panic.as_str()))
        {
            return Body::Stub(panic, location);
        }
        match item.methods.is_empty() {
            true => Body::Composite,
            false => Body::Kernel,
        }
    }

    /// The methods that an `impl` leaves to the trait.
    fn inherited<'a>(&self, extension: &'a Extension, item: &Impl) -> Vec<&'a super::walk::Method> {
        let own = |method: &&super::walk::Method| {
            item.methods.iter().any(|(name, _)| *name == method.name)
        };
        extension
            .methods
            .iter()
            .filter(|method| !own(method))
            .collect()
    }

    /// Implementations on backends that no list has.
    fn strays(&self, extension: &Extension, arms: &[Arm], declared: &mut Declared) {
        for item in self.impls_of(extension) {
            for serves in self.serves(&item.on, &item.generics) {
                // `Remote` and `Capture` share a type: one `impl` stands for both.
                let Serves::Backend(backend) = serves else {
                    continue;
                };
                let listed = self
                    .serves(&item.on, &item.generics)
                    .iter()
                    .any(|serves| arms.iter().any(|arm| arm.serves == *serves));
                if !listed {
                    declared.strays.push(Stray {
                        subject: extension.name.clone(),
                        backend,
                        location: item.location.clone(),
                        cfg: item.cfg.clone(),
                    });
                }
            }
        }
    }
}
