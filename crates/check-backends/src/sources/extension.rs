//! Burn's dialect: what stands in `#[backend_extension(…)]`, and what the macro makes of a trait.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{FnArg, Ident, Meta, Token, Type};

use crate::cfg::Cfg;
use crate::model::Inputs;

/// `Flex: cfg(feature = "flex"), Autodiff`.
pub(super) struct List(pub(super) Vec<Entry>);

/// One name of the list.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) cfg: Cfg,
}

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let entries = Punctuated::<Entry, Token![,]>::parse_terminated(input)?;
        Ok(Self(entries.into_iter().collect()))
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        let mut cfg = Cfg::always();
        if input.peek(Token![:]) {
            input.parse::<Token![:]>()?;
            let meta: Meta = input.parse()?;
            cfg = Cfg::of_attribute(&meta).ok_or_else(|| {
                syn::Error::new_spanned(&meta, "expected `cfg(…)` behind the backend's name")
            })?;
        }
        Ok(Self {
            name: name.to_string(),
            span: name.span(),
            cfg,
        })
    }
}

/// What the macro finds among the inputs of a method.
pub(super) fn inputs<'a>(arguments: impl IntoIterator<Item = &'a FnArg>) -> Inputs {
    let mut found = Inputs::None;
    for argument in arguments {
        let FnArg::Typed(argument) = argument else {
            continue;
        };
        let is_extension = argument
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("extension_type"));
        match tensor(&argument.ty) {
            Some(true) => return Inputs::Float,
            Some(false) => found = Inputs::Tensor,
            None if is_extension => found = Inputs::Tensor,
            None => {}
        }
    }
    found
}

/// Whether a type is a tensor to the macro, which goes by its name, and whether a float one.
fn tensor(ty: &Type) -> Option<bool> {
    match ty {
        Type::Path(path) => match path.path.segments.last()?.ident.to_string().as_str() {
            "Float" | "FloatTensor" | "FloatTensorPrimitive" => Some(true),
            "Int"
            | "IntTensor"
            | "IntTensorPrimitive"
            | "Bool"
            | "BoolTensor"
            | "BoolTensorPrimitive"
            | "Quantized"
            | "QuantizedTensor"
            | "QuantizedTensorPrimitive" => Some(false),
            _ => None,
        },
        Type::Reference(reference) => tensor(&reference.elem),
        Type::Paren(inner) => tensor(&inner.elem),
        _ => None,
    }
}
