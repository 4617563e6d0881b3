//! The grammar of `arms!`.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Generics, Ident, LitStr, Meta, Token, Type, braced, bracketed, parenthesized,
    token,
};

/// The backends that an arm can be listed for, with the macro that knows whether the build has
/// it, the type that arms are written for, and the constant that knows of feature drift.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    pub(crate) ty: &'static str,
    pub(crate) when: &'static str,
    pub(crate) drift: &'static str,
    pub(crate) feature: &'static str,
}

const fn backend(
    name: &'static str,
    ty: &'static str,
    when: &'static str,
    drift: &'static str,
    feature: &'static str,
) -> Backend {
    Backend {
        name,
        ty,
        when,
        drift,
        feature,
    }
}

pub(crate) const BACKENDS: [Backend; 6] = [
    backend("NdArray", "NdArray", "when_ndarray", "NDARRAY", "ndarray"),
    backend("Flex", "Flex", "when_flex", "FLEX", "flex"),
    backend(
        "Cube",
        "CubeBackend",
        "when_cube",
        "CUBE",
        "cuda` or that of another CubeCL runtime, `wgpu",
    ),
    backend("LibTorch", "LibTorch", "when_libtorch", "LIBTORCH", "tch"),
    backend("Remote", "Remote", "when_remote", "REMOTE", "remote"),
    backend("Capture", "Capture", "when_capture", "CAPTURE", "capture"),
];

/// One `arms! { … }`.
pub(crate) struct Declaration {
    pub(crate) core: TokenStream,
    pub(crate) generics: Generics,
    pub(crate) op: Type,
    pub(crate) forward: Block<Forward>,
    pub(crate) gradient: Option<Block<Gradient>>,
}

/// A `forward { … }` or `gradient { … }`.
pub(crate) struct Block<A> {
    pub(crate) arms: Vec<Listed<A>>,
    pub(crate) rest: Option<Named<A>>,
}

/// An arm, and the name that its functions have for the backend: `B @ … => arm`.
#[derive(Clone)]
pub(crate) struct Named<A> {
    pub(crate) alias: Option<Ident>,
    pub(crate) arm: A,
}

/// An arm and the backend that it is listed for.
pub(crate) struct Listed<A> {
    /// The conditions of its `#[cfg(…)]`s.
    pub(crate) cfgs: Vec<TokenStream>,
    pub(crate) backend: &'static Backend,
    pub(crate) name: Ident,
    pub(crate) named: Named<A>,
}

#[derive(Clone)]
pub(crate) enum Forward {
    Kernel(Expr),
    /// With the function on routed tensors, if it is given.
    Composite(Ident, Option<Expr>),
    Unsupported(LitStr),
    ByHand(Token![impl]),
}

#[derive(Clone)]
pub(crate) enum Gradient {
    Pair(Box<Expr>, Box<Expr>),
    Composite(Ident),
    Unsupported(LitStr),
    ByHand(Token![impl]),
}

mod kw {
    syn::custom_keyword!(forward);
    syn::custom_keyword!(gradient);
}

impl Parse for Declaration {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let core;
        bracketed!(core in input);
        let core = core.parse()?;

        input.parse::<Token![impl]>().map_err(|error| {
            syn::Error::new(
                error.span(),
                "expected `impl MyOp { forward { … } gradient { … } }`",
            )
        })?;
        let mut generics = if input.peek(Token![<]) {
            input.parse()?
        } else {
            Generics::default()
        };
        let op = input.parse()?;
        generics.where_clause = input.parse()?;

        let body;
        braced!(body in input);
        body.parse::<kw::forward>()?;
        let forward = body.parse()?;
        let gradient = match body.peek(kw::gradient) {
            true => {
                body.parse::<kw::gradient>()?;
                Some(body.parse()?)
            }
            false => None,
        };
        if !body.is_empty() {
            return Err(body.error("expected `gradient { … }` or the end of the declaration"));
        }
        if !input.is_empty() {
            return Err(input.error("one `arms!` declares the arms of one op"));
        }
        Ok(Self {
            core,
            generics,
            op,
            forward,
            gradient,
        })
    }
}

impl<A: Parse + Clone> Parse for Block<A> {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let content;
        braced!(content in input);
        let lines = Punctuated::<Line<A>, Token![,]>::parse_terminated(&content)?;
        let mut block = Self {
            arms: Vec::new(),
            rest: None,
        };
        for line in lines {
            match line {
                Line::Rest(underscore, _) if block.rest.is_some() => {
                    return Err(syn::Error::new(
                        underscore.span,
                        "the rest arm is given twice",
                    ));
                }
                Line::Rest(_, arm) => block.rest = Some(arm),
                Line::Listed(line) => {
                    for listed in line {
                        // Two arms of one backend are fine where their conditions exclude each other;
                        // the compiler sees that they do.
                        let doubled = |other: &Listed<A>| {
                            other.backend.name == listed.backend.name
                                && (other.cfgs.is_empty() || listed.cfgs.is_empty())
                        };
                        if block.arms.iter().any(doubled) {
                            let message = format!("`{}` is listed twice", listed.name);
                            return Err(syn::Error::new(listed.name.span(), message));
                        }
                        block.arms.push(listed);
                    }
                }
            }
        }
        Ok(block)
    }
}

enum Line<A> {
    Rest(Token![_], Named<A>),
    Listed(Vec<Listed<A>>),
}

impl<A: Parse + Clone> Parse for Line<A> {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let alias = match input.peek(Ident) && input.peek2(Token![@]) {
            true => {
                let alias = input.parse()?;
                input.parse::<Token![@]>()?;
                Some(alias)
            }
            false => None,
        };
        if input.peek(Token![_]) {
            if let Some(attribute) = attributes.first() {
                return Err(syn::Error::new_spanned(
                    attribute,
                    "the rest arm takes no attribute: it serves whatever is left",
                ));
            }
            let underscore = input.parse()?;
            input.parse::<Token![=>]>()?;
            return Ok(Self::Rest(
                underscore,
                Named {
                    alias,
                    arm: input.parse()?,
                },
            ));
        }
        let mut cfgs = Vec::new();
        for attribute in attributes {
            match &attribute.meta {
                Meta::List(list) if list.path.is_ident("cfg") => cfgs.push(list.tokens.clone()),
                _ => {
                    return Err(syn::Error::new_spanned(
                        attribute,
                        "an arm takes no attribute but `#[cfg(…)]`",
                    ));
                }
            }
        }
        let names: Vec<Ident> = match input.peek(token::Paren) {
            true => {
                let content;
                parenthesized!(content in input);
                let names = Punctuated::<Ident, Token![|]>::parse_terminated(&content)?;
                names.into_iter().collect()
            }
            false => {
                let names = Punctuated::<Ident, Token![|]>::parse_separated_nonempty(input)?;
                names.into_iter().collect()
            }
        };
        input.parse::<Token![=>]>()?;
        let named = Named {
            alias,
            arm: input.parse()?,
        };
        let listed = names.into_iter().map(|name| {
            let backend = find(&name)?;
            Ok(Listed {
                cfgs: cfgs.clone(),
                backend,
                name,
                named: named.clone(),
            })
        });
        listed.collect::<syn::Result<_>>().map(Self::Listed)
    }
}

fn find(name: &Ident) -> syn::Result<&'static Backend> {
    BACKENDS
        .iter()
        .find(|backend| name == backend.name)
        .ok_or_else(|| {
            let names = BACKENDS.each_ref().map(|backend| backend.name).join("`, `");
            let hint = hint(name);
            let message = format!(
                "`{name}` is no backend; use one of `{names}`, or `_` for all others{hint}"
            );
            syn::Error::new(name.span(), message)
        })
}

/// What to say to a name that stands for something else than a backend.
fn hint(name: &Ident) -> &'static str {
    match name.to_string().as_str() {
        "Cuda" | "Rocm" | "Wgpu" | "Vulkan" | "Metal" | "WebGpu" | "Cpu" | "CubeBackend" => {
            " (every CubeCL runtime is the one backend `Cube`)"
        }
        "Autodiff" => " (autodiff is added to every backend: see `gradient`)",
        "Fusion" => " (fusion is added to `Cube` without an arm)",
        _ => "",
    }
}

/// `composite`, `unsupported("reason")` or `impl`, which both blocks know.
enum Word {
    Composite(Ident, Option<Expr>),
    Unsupported(LitStr),
    ByHand(Token![impl]),
}

/// Whether what comes next is `word` as a whole arm, and not the start of a path or a call.
fn is_word(input: ParseStream, word: &str) -> bool {
    let ahead = input.fork();
    ahead.parse::<Ident>().is_ok_and(|ident| ident == word)
        && (ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(token::Paren))
}

fn parse_word(input: ParseStream) -> syn::Result<Option<Word>> {
    if input.peek(Token![impl]) {
        return Ok(Some(Word::ByHand(input.parse()?)));
    }
    if is_word(input, "composite") {
        let word = input.parse()?;
        let function = match input.peek(token::Paren) {
            true => {
                let content;
                parenthesized!(content in input);
                Some(content.parse()?)
            }
            false => None,
        };
        return Ok(Some(Word::Composite(word, function)));
    }
    if is_word(input, "unsupported") {
        let word: Ident = input.parse()?;
        if !input.peek(token::Paren) {
            let message = "an unsupported arm says why: `unsupported(\"reason\")`";
            return Err(syn::Error::new(word.span(), message));
        }
        let content;
        parenthesized!(content in input);
        let reason: LitStr = content.parse()?;
        if reason.value().trim().is_empty() {
            return Err(syn::Error::new(
                reason.span(),
                "the reason must not be empty",
            ));
        }
        return Ok(Some(Word::Unsupported(reason)));
    }
    Ok(None)
}

impl Parse for Forward {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        Ok(match parse_word(input)? {
            Some(Word::Composite(word, function)) => Self::Composite(word, function),
            Some(Word::Unsupported(reason)) => Self::Unsupported(reason),
            Some(Word::ByHand(word)) => Self::ByHand(word),
            None => Self::Kernel(input.parse()?),
        })
    }
}

impl Parse for Gradient {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        match parse_word(input)? {
            Some(Word::Composite(word, None)) => Ok(Self::Composite(word)),
            Some(Word::Composite(word, Some(_))) => Err(syn::Error::new(
                word.span(),
                "the composite's function belongs in the forward block",
            )),
            Some(Word::Unsupported(reason)) => Ok(Self::Unsupported(reason)),
            Some(Word::ByHand(word)) => Ok(Self::ByHand(word)),
            None => match input.parse()? {
                Expr::Tuple(pair) if pair.elems.len() == 2 => {
                    let mut functions = pair.elems.into_iter().map(Box::new);
                    let (Some(forward), Some(backward)) = (functions.next(), functions.next())
                    else {
                        unreachable!("the length was checked")
                    };
                    Ok(Self::Pair(forward, backward))
                }
                other => Err(syn::Error::new_spanned(
                    other,
                    "a gradient arm is `(forward_saving, backward)`, `composite`, \
                     `unsupported(\"reason\")` or `impl`",
                )),
            },
        }
    }
}
