//! What is wrong with what is declared, and with what a build makes of it.

use std::collections::BTreeSet;

use crate::catalogue::{Backend, Catalogue};
use crate::cfg::Cfg;
use crate::coverage::{Cause, Cell, Direction, Situation};
use crate::graph::Graph;
use crate::lints::{self, Level, LintId};
use crate::model::{Arm, Body, Declared, Dialect, Inputs, Location, Op};
use crate::report::Finding;

/// Collects findings, each once, however many builds and backends it is found on.
pub(crate) struct Findings<'a> {
    graph: &'a Graph,
    catalogue: &'static Catalogue,
    /// Whether the package is one of the workspace.
    member: bool,
    drafts: Vec<Draft>,
}

/// A finding whose backends are not all known yet.
struct Draft {
    finding: Finding,
    /// Keeps findings of one place apart that are cured in different ways.
    kind: String,
    message: Text,
    cure: Text,
}

/// A text that names backends.
type Text = Box<dyn Fn(&[Backend]) -> String>;

impl<'a> Findings<'a> {
    pub(crate) fn new(graph: &'a Graph, catalogue: &'static Catalogue, member: bool) -> Self {
        Self {
            graph,
            catalogue,
            member,
            drafts: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Vec<Finding> {
        let finish = |draft: Draft| {
            let Draft {
                mut finding,
                message,
                cure,
                ..
            } = draft;
            finding.backends.sort();
            finding.member = self.member;
            finding.message = message(&finding.backends);
            finding.cure = cure(&finding.backends);
            finding
        };
        self.drafts.into_iter().map(finish).collect()
    }

    /// That there is nothing to check.
    pub(crate) fn no_ops(graph: &Graph) -> Finding {
        let location = Location {
            file: "Cargo.toml".to_owned(),
            line: 1,
            column: 1,
            end_line: 1,
            end_column: 1,
            path: graph.root.join("Cargo.toml"),
        };
        let mut finding = blank(lints::NO_OPS, "", location);
        "no op was found, so nothing was checked".clone_into(&mut finding.message);
        "point `--manifest-path` at a workspace that declares ops, or depends on a crate that does; \
         ops in tests, examples and benches are read with `--tests`"
            .clone_into(&mut finding.cure);
        finding
    }

    fn add(&mut self, draft: Draft) {
        let new = &draft.finding;
        let known = self.drafts.iter_mut().find(|known| {
            known.finding.lint == new.lint
                && known.finding.location == new.location
                && known.finding.op == new.op
                && known.kind == draft.kind
        });
        let Some(known) = known else {
            self.drafts.push(draft);
            return;
        };
        for backend in &new.backends {
            if !known.finding.backends.contains(backend) {
                known.finding.backends.push(*backend);
            }
        }
        for build in &new.builds {
            if !known.finding.builds.contains(build) {
                known.finding.builds.push(build.clone());
            }
        }
    }

    /// What is wrong with declarations whatever the build is, where they are the user's own; and
    /// what could not be read, where the build has it.
    pub(crate) fn declarations(&mut self, situation: &Situation<'_>, declared: &Declared) {
        let package = self.graph.packages[situation.package].name.to_string();
        for unread in declared
            .unread
            .iter()
            .filter(|unread| situation.has(&unread.cfg))
        {
            let reason = unread.reason.clone();
            self.add(Draft {
                finding: blank(lints::UNKNOWN, &package, unread.location.clone()),
                kind: reason.clone(),
                message: Box::new(move |_| reason.clone()),
                cure: says(
                    "write it in a form that can be read without running the compiler, or see for \
                     yourself that each backend of the build has an arm",
                ),
            });
        }
        if !self.graph.members.contains(&situation.package) {
            return;
        }
        let features: BTreeSet<String> = self
            .graph
            .features(situation.package)
            .keys()
            .cloned()
            .collect();
        for op in &declared.ops {
            for arm in arms_of(op) {
                self.dead(&package, op, arm, &features);
                self.stub(&package, op, arm);
                self.unserved(&package, op, arm);
            }
        }
        for op in &declared.ops {
            self.default_panics(&package, op);
        }
        for misnamed in &declared.misnamed {
            let name = misnamed.name.clone();
            let mut finding = blank(lints::UNKNOWN_BACKEND, &package, misnamed.location.clone());
            finding.op = Some(misnamed.subject.clone());
            let versions = self.catalogue.versions;
            let known = list(&self.catalogue.backends());
            self.add(Draft {
                finding,
                kind: name.clone(),
                message: Box::new(move |_| format!("`{name}` is no backend of burn {versions}")),
                cure: says(&match misnamed.name.as_str() {
                    "Cuda" | "Rocm" | "Wgpu" | "Vulkan" | "Metal" | "WebGpu" | "Cpu"
                    | "CubeBackend" => {
                        "write `Cube`, which stands for every CubeCL runtime".to_owned()
                    }
                    _ => format!("use one of {known}"),
                }),
            });
        }
        for stray in &declared.strays {
            let (subject, backend) = (stray.subject.clone(), stray.backend);
            let mut finding = blank(lints::UNREACHED_IMPL, &package, stray.location.clone());
            finding.op = Some(subject.clone());
            finding.backends = vec![backend];
            self.add(Draft {
                finding,
                kind: String::new(),
                message: Box::new(move |_| {
                    format!(
                        "`{subject}` is implemented on `{backend}`, which its list does not name"
                    )
                }),
                cure: Box::new(move |_| {
                    format!(
                        "add `{backend}` to the trait's `backend_extension`, or remove the impl"
                    )
                }),
            });
        }
    }

    fn default_panics(&mut self, package: &str, op: &Op) {
        for method in op.methods.iter().filter(|method| method.inherited) {
            let Some(Body::Stub(panic, location)) = &method.default else {
                continue;
            };
            let mut finding = of_op(lints::DEFAULT_PANICS, package, op, location.clone());
            finding.methods = vec![method.name.clone()];
            let (name, method, panic) = (op.name.clone(), method.name.clone(), panic.clone());
            self.add(Draft {
                finding,
                kind: method.clone(),
                message: Box::new(move |_| {
                    format!(
                        "`{method}` of `{name}` panics, with `{panic}`, on a backend that does not \
                         write it"
                    )
                }),
                cure: says("write the method on each backend that it is called on"),
            });
        }
    }

    fn dead(&mut self, package: &str, op: &Op, arm: &Arm, features: &BTreeSet<String>) {
        let whole = op.cfg.and(&arm.cfg);
        if whole.can_hold(features) {
            return;
        }
        let undeclared: Vec<String> = whole
            .features()
            .into_iter()
            .filter(|feature| !features.contains(*feature))
            .map(|feature| format!("`{feature}`"))
            .collect();
        let mut finding = of_op(lints::DEAD_ARM, package, op, arm.location.clone());
        finding.cause = Some(match undeclared.is_empty() {
            true => format!("`{}` contradicts itself", arm.cfg),
            false => format!("{package} declares no feature {}", undeclared.join(", ")),
        });
        let (subject, cfg) = (op.name.clone(), arm.cfg.clone());
        let first = undeclared.first().cloned();
        let manifest = self.manifest_of(package);
        self.add(Draft {
            finding,
            kind: String::new(),
            message: Box::new(move |_| {
                format!("op `{subject}` has an arm that no feature can enable: `{cfg}`")
            }),
            cure: Box::new(move |_| match &first {
                Some(feature) => format!(
                    "name a feature that {manifest} declares, or declare {feature} there, under \
                     [features]"
                ),
                None => "write a condition that can hold, or remove the arm".to_owned(),
            }),
        });
    }

    fn manifest_of(&self, package: &str) -> String {
        let found = self.graph.named(package).next();
        let path = found.map(|found| self.graph.packages[found].manifest_path.as_std_path());
        let shown = path.map(|path| path.strip_prefix(&self.graph.root).unwrap_or(path));
        shown.map_or_else(
            || "the manifest".to_owned(),
            |path| path.display().to_string(),
        )
    }

    fn stub(&mut self, package: &str, op: &Op, arm: &Arm) {
        let Body::Stub(panic, location) = &arm.body else {
            return;
        };
        let mut finding = of_op(lints::STUB_ARM, package, op, location.clone());
        finding.backends.extend(backend_of(arm));
        if (&location.file, location.line) != (&arm.location.file, arm.location.line) {
            let listed = &arm.location;
            finding.cause = Some(format!(
                "the arm is listed at {}:{}",
                listed.file, listed.line
            ));
        }
        let (name, panic) = (op.name.clone(), panic.clone());
        let of_burn = op.dialect == Dialect::BackendExtension;
        self.add(Draft {
            finding,
            kind: String::new(),
            message: Box::new(move |backends| match backends {
                [] => format!("op `{name}` has an arm that panics on every call, with `{panic}`"),
                some => format!(
                    "op `{name}` panics on every call on {}, with `{panic}`",
                    list(some)
                ),
            }),
            cure: says(match of_burn {
                true => "write the body, or take the backend from the list of `backend_extension`",
                false => {
                    "write the body, or say that it is not there: `unsupported(\"reason\")`, or let \
                     the rest arm serve: `_ => composite`"
                }
            }),
        });
    }

    fn unserved(&mut self, package: &str, op: &Op, arm: &Arm) {
        // A trait without methods routes nothing, so nothing needs to be there.
        if arm.body != Body::Missing || op.methods.is_empty() {
            return;
        }
        let mut finding = of_op(lints::UNSERVED_ARM, package, op, arm.location.clone());
        finding.backends.extend(backend_of(arm));
        let name = op.name.clone();
        let subject = op.subject.clone();
        let is_gradient = op
            .gradient
            .arms
            .iter()
            .any(|one| one.location == arm.location);
        let is_autodiff = op
            .wrappers
            .autodiff
            .iter()
            .any(|one| one.location == arm.location);
        let dialect = op.dialect;
        self.add(Draft {
            finding,
            kind: String::new(),
            message: Box::new(move |backends| {
                let on = if is_autodiff {
                    "`Autodiff`".to_owned()
                } else {
                    list(backends)
                };
                format!("op `{name}` lists {on}, and this crate does not implement it there")
            }),
            cure: Box::new(move |backends| {
                let ty = backends.first().map_or("B", |backend| type_of(*backend));
                match dialect {
                    Dialect::BackendExtension if is_autodiff => format!(
                        "write `impl<B: Backend + {subject}, C: CheckpointStrategy> {subject} for \
                         Autodiff<B, C>`, or take `Autodiff` from the list"
                    ),
                    Dialect::BackendExtension => {
                        format!("write `impl {subject} for {ty}`, or take it from the list")
                    }
                    Dialect::Armature if is_gradient => {
                        format!("write `impl GradientArm<{ty}> for {subject}`")
                    }
                    Dialect::Armature => format!("write `impl Arm<{ty}> for {subject}`"),
                }
            }),
        });
    }

    /// What a place of the coverage comes to.
    pub(crate) fn cell(
        &mut self,
        situation: &Situation<'_>,
        op: &Op,
        backend: Backend,
        direction: Direction,
        cell: &Cell,
        build: &str,
    ) {
        let package = self.graph.packages[situation.package].name.to_string();
        let is_member = self.graph.members.contains(&situation.package);
        match cell {
            Cell::Off => {}
            Cell::Gap(cause) => {
                let draft = self.gap(situation, op, backend, direction, cause, build);
                self.add(draft);
            }
            Cell::Unknown(reason, location) => {
                let mut finding = of_op(lints::UNKNOWN, &package, op, location.clone());
                finding.backends = vec![backend];
                finding.builds = vec![build.to_owned()];
                finding.cause = Some(reason.clone());
                let name = op.name.clone();
                self.add(Draft {
                    finding,
                    kind: reason.clone(),
                    message: Box::new(move |backends| {
                        let on = list(backends);
                        format!(
                            "whether op `{name}` has its {} arm on {on} cannot be told",
                            direction.name()
                        )
                    }),
                    cure: says("see for yourself that the arm is there in this build"),
                });
            }
            // Those of the user's own packages are found whatever the build is.
            Cell::Arm(Body::Stub(..), _) if !is_member => {
                for arm in arms_of(op).filter(|arm| arm.serves(backend)) {
                    self.stub(&package, op, arm);
                }
            }
            Cell::Arm(..) => {}
        }
    }

    fn gap(
        &self,
        situation: &Situation<'_>,
        op: &Op,
        backend: Backend,
        direction: Direction,
        cause: &Cause,
        build: &str,
    ) -> Draft {
        let package = self.graph.packages[situation.package].name.to_string();
        let is_member = self.graph.members.contains(&situation.package);
        let armature = op.dialect == Dialect::Armature;
        let lint = match (direction, armature) {
            (Direction::Forward, _) => lints::MISSING_ARM,
            (Direction::Gradient, true) => lints::MISSING_GRADIENT,
            (Direction::Gradient, false) => lints::MISSING_AUTODIFF,
            (Direction::Fusion, _) => lints::MISSING_FUSION,
        };
        let block = match direction {
            Direction::Gradient => &op.gradient,
            _ => &op.forward,
        };
        let lint = match situation.is_latent(op) {
            true => lints::LATENT,
            false => lint,
        };
        // A line that is there, but off, is the place to look at.
        let location = match cause {
            Cause::Off(_, location) => location.clone(),
            _ => block.location.clone(),
        };
        let mut finding = of_op(lint, &package, op, location);
        finding.backends = vec![backend];
        finding.builds = vec![build.to_owned()];
        // A dependency that lists no `Autodiff` at all says that its ops are not differentiable. Where
        // it lists one that is off, something in this build turned it on elsewhere.
        if lint == lints::MISSING_AUTODIFF && !is_member && *cause == Cause::NotListed {
            finding.level = Level::Warn;
        }
        if !armature {
            let concerned = op
                .methods
                .iter()
                .filter(|method| method.inputs != Inputs::None);
            finding.methods = concerned.map(|method| method.name.clone()).collect();
        }
        let way = self.way(situation, backend, direction);
        finding.cause = Some(match cause {
            Cause::NotListed => match direction {
                Direction::Forward if armature => {
                    format!("no arm is listed for it, and there is no rest arm; {way}")
                }
                Direction::Gradient if armature => {
                    format!("the gradient block has no arm for it, nor a rest arm; {way}")
                }
                Direction::Forward => format!("`backend_extension` does not list it; {way}"),
                Direction::Gradient => {
                    format!("`backend_extension` does not list `Autodiff`; {way}")
                }
                Direction::Fusion => format!("`backend_extension` does not list `Fusion`; {way}"),
            },
            Cause::Off(cfg, _) => {
                format!("its line stands behind `{cfg}`, which is off in {package}; {way}")
            }
            Cause::Drift => format!(
                "it is on in burn and off in armature-core, so no arm for it is compiled; {way}"
            ),
        });
        let kind = match cause {
            Cause::NotListed => "not listed".to_owned(),
            Cause::Off(cfg, _) => format!("off {cfg}"),
            Cause::Drift => "drift".to_owned(),
        };
        let kind = format!("{kind} {}", direction.name());
        Draft {
            finding,
            kind,
            message: message(op, direction),
            cure: match (armature, cause) {
                (true, Cause::Drift) => drift_cure(self.catalogue),
                (true, _) => armature_cure(op, direction, cause),
                (false, cause) => self.extension_cure(situation, op, direction, cause, is_member),
            },
        }
    }

    /// How a backend, or autodiff, or fusion, came to be on.
    fn way(&self, situation: &Situation<'_>, backend: Backend, direction: Direction) -> String {
        let (what, features): (String, Vec<&str>) = match direction {
            Direction::Forward => (
                backend.to_string(),
                self.catalogue.features_of(backend).collect(),
            ),
            Direction::Gradient => ("autodiff".to_owned(), vec!["autodiff"]),
            Direction::Fusion => ("fusion".to_owned(), vec!["fusion"]),
        };
        for package in [situation.dispatch, situation.core].into_iter().flatten() {
            let on = situation.build.features(package);
            if let Some(feature) = features.iter().find(|feature| on.contains(**feature)) {
                let path = situation.build.path(self.graph, package, feature);
                return format!("{what} is turned on by {}", path.join(" → "));
            }
        }
        format!("{what} is on")
    }

    fn extension_cure(
        &self,
        situation: &Situation<'_>,
        op: &Op,
        direction: Direction,
        cause: &Cause,
        is_member: bool,
    ) -> Text {
        let package = self.graph.packages[situation.package].name.to_string();
        if let Cause::Off(cfg, _) = cause
            && let Some(feature) = one_feature(cfg)
        {
            return says(&match self.graph.selected.contains(&situation.package) {
                true => format!(
                    "build with `--features {feature}`, or make it a default of {package}: \
                     default = [\"{feature}\"]"
                ),
                false => format!(
                    "enable the feature `{feature}` of {package} in this build, in Cargo.toml: \
                     {package} = {{ version = \"{}\", features = [\"{feature}\"] }}",
                    self.graph.packages[situation.package].version
                ),
            });
        }
        let missing: Vec<String> = match direction {
            Direction::Forward => Vec::new(),
            Direction::Gradient => vec!["Autodiff".to_owned()],
            Direction::Fusion => vec!["Fusion".to_owned()],
        };
        let listed: Vec<String> = op
            .forward
            .arms
            .iter()
            .map(|arm| (backend_of(arm).map(|backend| backend.to_string()), &arm.cfg))
            .filter_map(|(name, cfg)| Some((name?, cfg)))
            .chain(
                op.wrappers
                    .autodiff
                    .iter()
                    .map(|arm| ("Autodiff".to_owned(), &arm.cfg)),
            )
            .chain(
                op.wrappers
                    .fusion
                    .iter()
                    .map(|arm| ("Fusion".to_owned(), &arm.cfg)),
            )
            .map(|(name, cfg)| match cfg.is_always() {
                true => name,
                false => format!("{name}: cfg({cfg})"),
            })
            .collect();
        let subject = op.subject.clone();
        Box::new(move |backends| {
            let mut all = listed.clone();
            all.extend(missing.iter().cloned());
            if missing.is_empty() {
                all.extend(backends.iter().map(ToString::to_string));
            }
            let attribute = format!("#[backend_extension({})]", all.join(", "));
            let implement = match direction {
                Direction::Forward => backends
                    .iter()
                    .map(|backend| format!("`impl {subject} for {}`", type_of(*backend)))
                    .collect::<Vec<_>>()
                    .join(", "),
                Direction::Gradient => format!("`impl {subject} for Autodiff<B, C>`"),
                Direction::Fusion => "how each method is fused".to_owned(),
            };
            match is_member {
                true => format!("write {implement}, and list it:\n{attribute}"),
                false => format!(
                    "do not call {subject} there, or ask the authors of {package} for {implement} \
                     and for\n{attribute}"
                ),
            }
        })
    }
}

/// Every arm of an op.
fn arms_of(op: &Op) -> impl Iterator<Item = &Arm> {
    let blocks = [&op.forward, &op.gradient];
    let listed = blocks
        .into_iter()
        .flat_map(|block| block.arms.iter().chain(&block.rest));
    listed
        .chain(&op.wrappers.autodiff)
        .chain(&op.wrappers.fusion)
}

fn backend_of(arm: &Arm) -> Option<Backend> {
    match &arm.serves {
        crate::model::Serves::Backend(backend) => Some(*backend),
        _ => None,
    }
}

/// The type that arms for a backend are written for.
fn type_of(backend: Backend) -> &'static str {
    match backend.name() {
        "Cube" => "CubeBackend",
        name => name,
    }
}

/// The feature that a condition comes down to, if it is one.
fn one_feature(cfg: &Cfg) -> Option<String> {
    match cfg {
        Cfg::Feature(feature) => Some(feature.clone()),
        Cfg::All(parts) if parts.len() == 1 => one_feature(&parts[0]),
        _ => None,
    }
}

fn says(text: &str) -> Text {
    let text = text.to_owned();
    Box::new(move |_| text.clone())
}

fn list(backends: &[Backend]) -> String {
    let names: Vec<String> = backends
        .iter()
        .map(|backend| format!("`{backend}`"))
        .collect();
    match names.as_slice() {
        [] => "a backend".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn message(op: &Op, direction: Direction) -> Text {
    let name = op.name.clone();
    let methods: Vec<String> = op
        .methods
        .iter()
        .map(|method| format!("`{}`", method.name))
        .collect();
    let methods = methods.join(", ");
    Box::new(move |backends| {
        let on = list(backends);
        match (direction, methods.as_str()) {
            (Direction::Gradient, _) => format!("op `{name}` has no gradient on {on}"),
            (Direction::Fusion, _) => format!("op `{name}` has no fusion on {on}"),
            (Direction::Forward, _) => format!("op `{name}` has no arm on {on}"),
        }
    })
}

fn armature_cure(op: &Op, direction: Direction, cause: &Cause) -> Text {
    let subject = op.subject.clone();
    let off = matches!(cause, Cause::Off(..));
    Box::new(move |backends| {
        let lines = |arm: &str| {
            let lines = backends
                .iter()
                .map(|backend| format!("{backend} => {arm},"));
            lines.collect::<Vec<_>>().join(" ")
        };
        let condition = if off {
            "lift the condition of its line, or "
        } else {
            ""
        };
        match direction {
            Direction::Gradient => format!(
                "{condition}add to the gradient block of {subject}: `_ => composite,` (Burn \
                 differentiates the composite), `{}`, or `_ => unsupported(\"reason\"),`",
                lines("(forward_saving, backward)")
            ),
            _ => format!(
                "{condition}add to the forward block of {subject}: `_ => composite,`, `{}`, or \
                 `_ => unsupported(\"reason\"),`",
                lines("kernel")
            ),
        }
    })
}

fn drift_cure(catalogue: &'static Catalogue) -> Text {
    Box::new(move |backends| {
        let features: Vec<String> = backends
            .iter()
            .filter_map(|backend| catalogue.features_of(*backend).next())
            .map(|feature| format!("\"{feature}\""))
            .collect();
        format!(
            "give the op the rest arm `_ => composite,`, or enable the backend where arms are made, \
             in Cargo.toml: armature-core = {{ features = [{}] }}, and list it",
            features.join(", ")
        )
    })
}

fn blank(lint: LintId, package: &str, location: Location) -> Finding {
    Finding {
        lint,
        level: lint.level,
        package: package.to_owned(),
        member: true,
        op: None,
        backends: Vec::new(),
        methods: Vec::new(),
        builds: Vec::new(),
        message: String::new(),
        cause: None,
        cure: String::new(),
        location,
    }
}

fn of_op(lint: LintId, package: &str, op: &Op, location: Location) -> Finding {
    let mut finding = blank(lint, package, location);
    finding.op = Some(op.name.clone());
    finding
}
