//! The `arms!` declaration of armature-core.
//!
//! This crate has no features: a feature of a procedural macro is shared by everything that is
//! built for the host, so it can differ from what armature-core has. What depends on features is
//! left to armature-core's `when_*!` macros, into which the expansion puts its items.

mod expand;
mod parse;

use proc_macro::TokenStream;

/// Use it through `armature_core::arms!`, which passes the path of its crate in front.
#[doc(hidden)]
#[proc_macro]
pub fn arms(input: TokenStream) -> TokenStream {
    let declaration = syn::parse_macro_input!(input as parse::Declaration);
    expand::expand(&declaration)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
