//! What `arms!` expands to.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use crate::parse::{BACKENDS, Backend, Block, Declaration, Forward, Gradient, Listed, Named};

pub(crate) fn expand(declaration: &Declaration) -> syn::Result<TokenStream> {
    let composite = Composite::of(&declaration.forward)?;
    check_rest(declaration, &composite)?;
    let gradient = match &declaration.gradient {
        Some(block) => block,
        None => &Block {
            arms: Vec::new(),
            rest: implied_gradient(&declaration.forward),
        },
    };

    let expansion = Expansion {
        declaration,
        composite,
    };
    let mut items = expansion.rest();
    for backend in &BACKENDS {
        items.extend(expansion.block(backend, &declaration.forward, Expansion::forward));
        items.extend(expansion.block(backend, gradient, Expansion::gradient));
    }
    items.extend(expansion.assertions());
    Ok(items)
}

/// The arms of a block, the rest arm last.
fn every_arm<A>(block: &Block<A>) -> impl Iterator<Item = &A> {
    block
        .arms
        .iter()
        .map(|listed| &listed.named)
        .chain(&block.rest)
        .map(|named| &named.arm)
}

/// The op's composite, wherever it is listed.
enum Composite<'a> {
    None,
    /// `impl Composite for Op`.
    Trait,
    /// A function on routed tensors.
    Function(&'a Expr),
}

impl<'a> Composite<'a> {
    fn of(block: &'a Block<Forward>) -> syn::Result<Self> {
        let mut found = Self::None;
        for arm in every_arm(block) {
            match (arm, &found) {
                (Forward::Composite(_, Some(function)), Self::Function(_)) => {
                    return Err(syn::Error::new_spanned(
                        function,
                        "an op has one composite, and its function is given already",
                    ));
                }
                (Forward::Composite(_, Some(function)), _) => found = Self::Function(function),
                (Forward::Composite(_, None), Self::None) => found = Self::Trait,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Refuses what cannot serve a backend that nobody has heard of, or has nothing to stand on.
fn check_rest(declaration: &Declaration, composite: &Composite) -> syn::Result<()> {
    const BY_HAND: &str = "the rest arm cannot be written by hand: list the backends that are";
    match rest(&declaration.forward) {
        Some(Forward::Kernel(kernel)) => {
            return Err(syn::Error::new_spanned(
                kernel,
                "the rest arm serves backends that the op does not know, so it cannot be a kernel: \
                 use `composite`, `composite(function)` or `unsupported(\"reason\")`",
            ));
        }
        Some(Forward::ByHand(word)) => return Err(syn::Error::new(word.span, BY_HAND)),
        _ => {}
    }
    let Some(gradient) = &declaration.gradient else {
        return Ok(());
    };
    if let Some(Gradient::ByHand(word)) = rest(gradient) {
        return Err(syn::Error::new(word.span, BY_HAND));
    }
    for arm in every_arm(gradient) {
        if let (Gradient::Composite(word), Composite::None) = (arm, composite) {
            return Err(syn::Error::new(
                word.span(),
                "the op has no composite to differentiate: add `_ => composite` to its forward block",
            ));
        }
    }
    Ok(())
}

/// Without a gradient block, an op with a composite is differentiated through it.
fn implied_gradient(forward: &Block<Forward>) -> Option<Named<Gradient>> {
    match rest(forward) {
        Some(Forward::Composite(word, _)) => Some(Named {
            alias: None,
            arm: Gradient::Composite(word.clone()),
        }),
        _ => None,
    }
}

fn rest<A>(block: &Block<A>) -> Option<&A> {
    block.rest.as_ref().map(|named| &named.arm)
}

struct Expansion<'a> {
    declaration: &'a Declaration,
    composite: Composite<'a>,
}

impl Expansion<'_> {
    /// The implementations of one block for one backend: each listed arm under its conditions, and
    /// the rest arm under none of them. All of it follows armature-core's features.
    fn block<A>(
        &self,
        backend: &Backend,
        block: &Block<A>,
        implement: fn(&Self, &Backend, &Named<A>, bool) -> TokenStream,
    ) -> TokenStream {
        let core = &self.declaration.core;
        let when = format_ident!("{}", backend.when);
        let listed: Vec<&Listed<A>> = block
            .arms
            .iter()
            .filter(|listed| listed.backend.name == backend.name)
            .collect();
        let mut items = TokenStream::new();
        for Listed { cfgs, named, .. } in &listed {
            let item = implement(self, backend, named, false);
            items.extend(quote!(#[cfg(all(#(#cfgs),*))] #core::#when! { #item }));
        }
        let always = listed.iter().any(|listed| listed.cfgs.is_empty());
        if let (Some(rest), false) = (&block.rest, always) {
            let conditions = listed
                .iter()
                .map(|Listed { cfgs, .. }| quote!(all(#(#cfgs),*)));
            let item = implement(self, backend, rest, true);
            items.extend(quote!(#[cfg(not(any(#(#conditions),*)))] #core::#when! { #item }));
        }
        items
    }

    fn forward(&self, backend: &Backend, named: &Named<Forward>, _: bool) -> TokenStream {
        let core = &self.declaration.core;
        let op = &self.declaration.op;
        let (generics, _, bounds) = self.declaration.generics.split_for_impl();
        let ty = format_ident!("{}", backend.ty);
        let ty = quote!(#core::backend::#ty);
        let alias = named.alias.iter().map(|alias| quote!(type #alias = #ty;));
        let alias = quote!(#(#alias)*);
        let (kind, body) = match &named.arm {
            Forward::ByHand(_) => return TokenStream::new(),
            Forward::Kernel(function) => (
                quote!(Kernel),
                quote_spanned! { at(function) =>
                    #alias
                    let arm: fn(&Self, #core::In<Self, #ty>)
                        -> ::core::result::Result<#core::Out<Self, #ty>, #core::DispatchError>
                        = #function;
                    arm(self, inputs)
                },
            ),
            Forward::Composite(word, _) => (
                quote!(Composite),
                match self.composite {
                    Composite::Trait => quote_spanned! { at(word) =>
                        ::core::result::Result::Ok(
                            <Self as #core::Composite>::composite::<#ty>(self, inputs)
                        )
                    },
                    Composite::Function(_) | Composite::None => quote! {
                        let _ = inputs;
                        ::core::result::Result::Err(#core::__private::only_routed::<Self>())
                    },
                },
            ),
            Forward::Unsupported(reason) => (
                quote!(Unsupported { reason: #reason }),
                quote! {
                    let _ = inputs;
                    ::core::result::Result::Err(#core::__private::declined::<Self>(#reason))
                },
            ),
        };
        quote! {
            #[allow(deprecated, clippy::type_complexity)] // NdArray and LibTorch, in Burn.
            impl #generics #core::Arm<#ty> for #op #bounds {
                const KIND: #core::ArmKind = #core::ArmKind::#kind;
                #[inline]
                fn forward(
                    &self,
                    inputs: #core::In<Self, #ty>,
                ) -> ::core::result::Result<#core::Out<Self, #ty>, #core::DispatchError> {
                    #body
                }
            }
        }
    }

    fn gradient(&self, backend: &Backend, named: &Named<Gradient>, is_rest: bool) -> TokenStream {
        let core = &self.declaration.core;
        let op = &self.declaration.op;
        let (generics, _, bounds) = self.declaration.generics.split_for_impl();
        let ty = format_ident!("{}", backend.ty);
        let ty = quote!(#core::backend::#ty);
        let alias = named.alias.iter().map(|alias| quote!(type #alias = #ty;));
        let alias = quote!(#(#alias)*);
        let arm = &named.arm;
        let result = quote!(::core::result::Result);
        let saved = quote!(<<Self as #core::GradientArm<#ty>>::Saved as #core::Tree>::Of);
        let grads_in = quote!(#core::In<Self, #core::tree::Grads<#ty>>);
        let grads_out = quote!(#core::Out<Self, #core::tree::Grads<#ty>>);

        let (kind, through, saves) = match arm {
            Gradient::ByHand(_) => return TokenStream::new(),
            // At the rest, a pair has to be generic: it is built from Burn's primitive ops.
            Gradient::Pair(..) if is_rest => (quote!(Composite), false, true),
            Gradient::Pair(..) => (quote!(Kernel), false, true),
            Gradient::Composite(_) => (quote!(Composite), true, false),
            Gradient::Unsupported(reason) => {
                (quote!(Unsupported { reason: #reason }), false, false)
            }
        };
        let (forward, backward) = match arm {
            Gradient::Pair(forward, backward) => (
                quote_spanned! { at(forward) =>
                    #alias
                    let arm: fn(&Self, #core::In<Self, #ty>)
                        -> #result<(#core::Out<Self, #ty>, #saved<#ty>), #core::DispatchError>
                        = #forward;
                    arm(self, inputs)
                },
                quote_spanned! { at(backward) =>
                    #alias
                    let arm: fn(&Self, #saved<#ty>, #grads_out, &#core::In<Self, #core::tree::Needs>)
                        -> #result<#grads_in, #core::DispatchError>
                        = #backward;
                    arm(self, saved, grads, needs)
                },
            ),
            _ => {
                let reason = match arm {
                    Gradient::Unsupported(reason) => reason.to_token_stream(),
                    _ => quote!("Burn differentiates its composite"),
                };
                let declined = quote!(#core::__private::declined::<Self>(#reason));
                (
                    quote!(let _ = inputs; #result::Err(#declined)),
                    quote!(let _ = (saved, grads, needs); #result::Err(#declined)),
                )
            }
        };
        let (saved_ty, infer) = match saves {
            true => (
                quote!(<Self as #core::Differentiable>::Saved),
                quote!(<Self as #core::Differentiable>::infer_saved(self, inputs)),
            ),
            false => (quote!(()), quote!(let _ = inputs;)),
        };
        quote! {
            #[allow(deprecated, clippy::type_complexity)]
            impl #generics #core::GradientArm<#ty> for #op #bounds {
                const KIND: #core::ArmKind = #core::ArmKind::#kind;
                const THROUGH_COMPOSITE: bool = #through;
                type Saved = #saved_ty;
                fn infer_saved(
                    &self,
                    inputs: &#core::In<Self, #core::Specs>,
                ) -> #saved<#core::Specs> {
                    #infer
                }
                #[inline]
                fn forward_saving(
                    &self,
                    inputs: #core::In<Self, #ty>,
                ) -> #result<(#core::Out<Self, #ty>, #saved<#ty>), #core::DispatchError> {
                    #forward
                }
                #[inline]
                fn backward(
                    &self,
                    saved: #saved<#ty>,
                    grads: #grads_out,
                    needs: &#core::In<Self, #core::tree::Needs>,
                ) -> #result<#grads_in, #core::DispatchError> {
                    #backward
                }
            }
        }
    }

    fn rest(&self) -> TokenStream {
        let core = &self.declaration.core;
        let op = &self.declaration.op;
        let (generics, _, bounds) = self.declaration.generics.split_for_impl();
        let dispatch = quote!(#core::backend::Dispatch);
        let kind = match rest(&self.declaration.forward) {
            None => quote!(::core::option::Option::None),
            Some(Forward::Unsupported(reason)) => {
                quote!(::core::option::Option::Some(#core::ArmKind::Unsupported { reason: #reason }))
            }
            Some(_) => quote!(::core::option::Option::Some(#core::ArmKind::Composite)),
        };
        let body = match self.composite {
            Composite::None => quote! {
                ::core::result::Result::Err(#core::__private::no_composite::<Self>(&inputs))
            },
            Composite::Trait => quote! {
                ::core::result::Result::Ok(
                    <Self as #core::Composite>::composite::<#dispatch>(self, inputs)
                )
            },
            Composite::Function(function) => quote_spanned! { at(function) =>
                let composite: fn(&Self, #core::In<Self, #dispatch>)
                    -> #core::Out<Self, #dispatch> = #function;
                ::core::result::Result::Ok(composite(self, inputs))
            },
        };
        quote! {
            impl #generics #core::Rest for #op #bounds {
                const KIND: ::core::option::Option<#core::ArmKind> = #kind;
                fn composite_on_dispatch(
                    &self,
                    inputs: #core::In<Self, #dispatch>,
                ) -> ::core::result::Result<#core::Out<Self, #dispatch>, #core::DispatchError> {
                    #body
                }
            }
        }
    }

    /// Totality, held where the op is declared: an arm for every backend of the build, and, without
    /// a rest arm, no backend that only Burn knows of.
    fn assertions(&self) -> TokenStream {
        let core = &self.declaration.core;
        let op = &self.declaration.op;
        let (generics, _, bounds) = self.declaration.generics.split_for_impl();
        let mut items = quote! {
            const _: () = {
                #[allow(dead_code, non_snake_case)]
                fn every_backend_has_its_arms #generics () #bounds {
                    #core::__private::assert_complete::<#op>();
                }
            };
        };
        if self.declaration.forward.rest.is_some() {
            return items;
        }
        let name = op.to_token_stream().to_string();
        let backends = BACKENDS.iter().map(|backend| {
            let message = format!(
                "op `{name}` has no arm for the backend `{}`: another crate of this build enables \
                 burn's feature `{feature}`, while armature-core's is off, so that no arm for it is \
                 compiled. Enable the feature `{feature}` of armature-core and list `{}` in the \
                 op's `arms!`, or give the op the rest arm `_ => composite`",
                backend.name,
                backend.name,
                feature = backend.feature,
            );
            (format_ident!("{}", backend.drift), message)
        });
        let autodiff = format!(
            "op `{name}` cannot be differentiated: another crate of this build enables burn's \
             feature `autodiff`, while armature-core's is off. Enable the feature `autodiff` of \
             armature-core, or give the op the rest arm `_ => composite`"
        );
        for (drift, message) in backends.chain([(format_ident!("AUTODIFF"), autodiff)]) {
            items.extend(quote_spanned! { at(op) =>
                const _: () = ::core::assert!(!#core::drift::#drift, #message);
            });
        }
        items
    }
}

/// Where the author's tokens are, with the names of the expansion in scope: errors point there.
fn at(tokens: impl Spanned) -> Span {
    tokens.span().resolved_at(Span::call_site())
}
