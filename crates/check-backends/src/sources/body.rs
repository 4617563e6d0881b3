//! What a function's body comes to: whether it panics whatever it is given.

use syn::visit::{self, Visit};
use syn::{Block, Expr, Stmt};

use super::walk::Scope;
use crate::model::Location;

/// A panic that every call of a body reaches.
pub(super) type Stub = Option<(String, Location)>;

/// What is known of a function, or of an arm, from its text alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// It panics by itself.
    pub(super) stub: Stub,
    /// It is, or only calls, the function that this path names.
    pub(super) path: Option<Vec<String>>,
}

/// Macros that panic when they are reached.
const PANICS: [&str; 4] = ["todo", "unimplemented", "panic", "unreachable"];

impl Text {
    /// What an expression in the place of a function is: a closure, or the path of a function.
    pub(super) fn of_function(expression: &Expr, scope: &Scope<'_>) -> Self {
        match bare(expression) {
            Expr::Closure(closure) => Self::of_value(&closure.body, scope),
            Expr::Path(path) => Self {
                stub: None,
                path: Some(segments(&path.path)),
            },
            _ => Self::default(),
        }
    }

    /// What a block is that a function runs.
    pub(super) fn of_block(block: &Block, scope: &Scope<'_>) -> Self {
        let path = match block.stmts.as_slice() {
            [Stmt::Expr(expression, None)] => called(expression),
            _ => None,
        };
        Self {
            stub: stub_of_block(block, scope),
            path,
        }
    }

    fn of_value(expression: &Expr, scope: &Scope<'_>) -> Self {
        match bare(expression) {
            Expr::Block(block) => Self::of_block(&block.block, scope),
            other => Self {
                stub: stub_of_expression(other, scope),
                path: called(other),
            },
        }
    }
}

fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        Expr::Unsafe(inner) => match inner.block.stmts.as_slice() {
            [Stmt::Expr(only, None)] => bare(only),
            _ => expression,
        },
        _ => expression,
    }
}

/// The path that a call calls.
fn called(expression: &Expr) -> Option<Vec<String>> {
    match bare(expression) {
        Expr::Call(call) => match bare(&call.func) {
            Expr::Path(path) => Some(segments(&path.path)),
            _ => None,
        },
        _ => None,
    }
}

/// The names of a path.
pub(super) fn segments(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

fn stub_of_block(block: &Block, scope: &Scope<'_>) -> Stub {
    for statement in &block.stmts {
        let stub = match statement {
            Stmt::Macro(invoked) => stub_of_macro(&invoked.mac, scope),
            Stmt::Expr(expression, _) => stub_of_expression(expression, scope),
            Stmt::Local(local) => local
                .init
                .as_ref()
                .and_then(|init| stub_of_expression(&init.expr, scope)),
            Stmt::Item(_) => continue,
        };
        if stub.is_some() {
            return stub;
        }
        // Past something that may leave the block, a panic is not reached by every call.
        let mut leaves = Leaves(false);
        leaves.visit_stmt(statement);
        if leaves.0 {
            return None;
        }
    }
    None
}

fn stub_of_expression(expression: &Expr, scope: &Scope<'_>) -> Stub {
    match bare(expression) {
        Expr::Macro(invoked) => stub_of_macro(&invoked.mac, scope),
        Expr::Block(block) if block.label.is_none() => stub_of_block(&block.block, scope),
        Expr::Unsafe(block) => stub_of_block(&block.block, scope),
        Expr::Return(value) => value
            .expr
            .as_ref()
            .and_then(|value| stub_of_expression(value, scope)),
        // `Err(todo!())`, `f(todo!())`: the arguments come first. `async` blocks run when they are
        // awaited, which a caller of an op does.
        Expr::Call(call) => call
            .args
            .iter()
            .find_map(|value| stub_of_expression(value, scope)),
        Expr::Async(block) => stub_of_block(&block.block, scope),
        Expr::MethodCall(call) => stub_of_expression(&call.receiver, scope),
        _ => None,
    }
}

fn stub_of_macro(invoked: &syn::Macro, scope: &Scope<'_>) -> Stub {
    let name = invoked.path.segments.last()?.ident.to_string();
    if !PANICS.contains(&name.as_str()) {
        return None;
    }
    Some((format!("{name}!"), scope.location(invoked)))
}

/// Whether something may leave its block before the end.
struct Leaves(bool);

impl Visit<'_> for Leaves {
    fn visit_expr(&mut self, expression: &Expr) {
        match expression {
            Expr::Return(_) | Expr::Try(_) | Expr::Break(_) | Expr::Continue(_) => self.0 = true,
            // What is inside runs in another function.
            Expr::Closure(_) | Expr::Async(_) => {}
            other => visit::visit_expr(self, other),
        }
    }
    fn visit_item(&mut self, _: &syn::Item) {}
}
