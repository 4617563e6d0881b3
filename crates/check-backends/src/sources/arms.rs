//! Armature's dialect: the grammar of `arms!`.

use proc_macro2::Span;
use syn::buffer::Cursor;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Generics, Ident, LitStr, Token, Type, braced, parenthesized, token};

use crate::cfg::Cfg;

/// One `arms! { … }`.
pub(super) struct Declaration {
    pub(super) op: Type,
    pub(super) forward: Lines,
    pub(super) gradient: Option<Lines>,
}

/// A `forward { … }` or `gradient { … }`.
pub(super) struct Lines {
    /// The word in front.
    pub(super) span: Span,
    pub(super) lines: Vec<Line>,
}

/// `#[cfg(…)] B @ NdArray | Flex => arm`.
pub(super) struct Line {
    pub(super) cfg: Cfg,
    /// The backends; none for the rest arm.
    pub(super) names: Vec<Ident>,
    pub(super) span: Span,
    pub(super) arm: Listed,
}

/// What stands on the right.
pub(super) enum Listed {
    Functions(Vec<Expr>),
    Composite(Option<Box<Expr>>),
    Unsupported(String),
    ByHand,
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Token![impl]>()?;
        if input.peek(Token![<]) {
            input.parse::<Generics>()?;
        }
        let op = input.parse()?;
        input.parse::<Option<syn::WhereClause>>()?;
        let body;
        braced!(body in input);
        let forward = Lines::parse(&body, "forward")?
            .ok_or_else(|| body.error("expected `forward { … }`"))?;
        let gradient = Lines::parse(&body, "gradient")?;
        if !body.is_empty() {
            return Err(body.error("expected `gradient { … }` or the end of the declaration"));
        }
        Ok(Self {
            op,
            forward,
            gradient,
        })
    }
}

impl Lines {
    fn parse(input: ParseStream<'_>, word: &str) -> syn::Result<Option<Self>> {
        let ahead = input.fork();
        if !ahead.parse::<Ident>().is_ok_and(|ident| ident == word) {
            return Ok(None);
        }
        let span = input.parse::<Ident>()?.span();
        let content;
        braced!(content in input);
        let lines = Punctuated::<Line, Token![,]>::parse_terminated(&content)?;
        Ok(Some(Self {
            span,
            lines: lines.into_iter().collect(),
        }))
    }
}

impl Parse for Line {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let cfg = Cfg::of_attributes(&input.call(Attribute::parse_outer)?);
        let span = input.span();
        if input.peek(Ident) && input.peek2(Token![@]) {
            input.parse::<Ident>()?;
            input.parse::<Token![@]>()?;
        }
        let names = if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            Vec::new()
        } else if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            Punctuated::<Ident, Token![|]>::parse_terminated(&content)?
                .into_iter()
                .collect()
        } else {
            Punctuated::<Ident, Token![|]>::parse_separated_nonempty(input)?
                .into_iter()
                .collect()
        };
        input.parse::<Token![=>]>()?;
        let start = input.cursor();
        let arm = input.parse()?;
        let span = span.join(last(start, input.cursor())).unwrap_or(span);
        Ok(Self {
            cfg,
            names,
            span,
            arm,
        })
    }
}

impl Parse for Listed {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Token![impl]) {
            input.parse::<Token![impl]>()?;
            return Ok(Self::ByHand);
        }
        if is_word(input, "composite") {
            input.parse::<Ident>()?;
            if !input.peek(token::Paren) {
                return Ok(Self::Composite(None));
            }
            let content;
            parenthesized!(content in input);
            return Ok(Self::Composite(Some(content.parse()?)));
        }
        if is_word(input, "unsupported") {
            input.parse::<Ident>()?;
            let content;
            parenthesized!(content in input);
            return Ok(Self::Unsupported(content.parse::<LitStr>()?.value()));
        }
        Ok(match input.parse()? {
            Expr::Tuple(pair) => Self::Functions(pair.elems.into_iter().collect()),
            one => Self::Functions(vec![one]),
        })
    }
}

/// The last token before `end`.
fn last(start: Cursor<'_>, end: Cursor<'_>) -> Span {
    let mut span = start.span();
    let mut cursor = start;
    while cursor != end
        && let Some((token, next)) = cursor.token_tree()
    {
        span = token.span();
        cursor = next;
    }
    span
}

/// Whether what comes next is `word` as a whole arm, not the start of a path or of a call.
fn is_word(input: ParseStream<'_>, word: &str) -> bool {
    let ahead = input.fork();
    ahead.parse::<Ident>().is_ok_and(|ident| ident == word)
        && (ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(token::Paren))
}
