//! `macro_rules!` of the crate that is read, expanded far enough to see the items that they write.
//!
//! What a name means inside a macro is not looked at: an `impl` is seen for what its tokens are.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};

/// The rules of one macro.
pub(super) struct Macro(Vec<Rule>);

struct Rule {
    matcher: Vec<Pattern>,
    body: TokenStream,
}

enum Pattern {
    Token(String),
    Group(Delimiter, Vec<Pattern>),
    Variable(String, String),
    Repeat {
        inner: Vec<Pattern>,
        separator: Option<String>,
        operator: char,
    },
}

/// What a variable stands for, at each depth of repetition.
#[derive(Clone)]
enum Bound {
    One(TokenStream),
    Many(Vec<Bound>),
}

type Bindings = BTreeMap<String, Bound>;

impl Macro {
    /// Reads a definition: what stands inside `macro_rules! name { … }`.
    pub(super) fn read(tokens: TokenStream) -> Option<Self> {
        let mut rules = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let TokenTree::Group(matcher) = token else {
                return None;
            };
            for expected in ['=', '>'] {
                match tokens.next() {
                    Some(TokenTree::Punct(punct)) if punct.as_char() == expected => {}
                    _ => return None,
                }
            }
            let Some(TokenTree::Group(body)) = tokens.next() else {
                return None;
            };
            rules.push(Rule {
                matcher: patterns(matcher.stream())?,
                body: body.stream(),
            });
            match tokens.next() {
                None => break,
                Some(TokenTree::Punct(punct)) if punct.as_char() == ';' => {}
                Some(_) => return None,
            }
        }
        Some(Self(rules))
    }

    /// What the first rule that matches comes to.
    pub(super) fn expand(&self, input: &TokenStream) -> Option<TokenStream> {
        self.0.iter().find_map(|rule| {
            let parser = |input: ParseStream<'_>| {
                let mut bindings = Bindings::new();
                matches(&rule.matcher, input, &mut bindings)?;
                match input.is_empty() {
                    true => Ok(bindings),
                    false => Err(input.error("more than the rule matches")),
                }
            };
            let bindings = parser.parse2(input.clone()).ok()?;
            transcribe(rule.body.clone(), &bindings)
        })
    }
}

fn patterns(tokens: TokenStream) -> Option<Vec<Pattern>> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        found.push(match token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => match tokens.next()? {
                TokenTree::Group(group) => {
                    let (separator, operator) = repetition(&mut tokens)?;
                    Pattern::Repeat {
                        inner: patterns(group.stream())?,
                        separator,
                        operator,
                    }
                }
                TokenTree::Ident(name) => {
                    if name == "crate" {
                        return None;
                    }
                    let colon = tokens.next()?;
                    let TokenTree::Ident(kind) = tokens.next()? else {
                        return None;
                    };
                    if colon.to_string() != ":" {
                        return None;
                    }
                    Pattern::Variable(name.to_string(), kind.to_string())
                }
                _ => return None,
            },
            TokenTree::Group(group) => Pattern::Group(group.delimiter(), patterns(group.stream())?),
            other => Pattern::Token(other.to_string()),
        });
    }
    Some(found)
}

type Tokens = std::iter::Peekable<proc_macro2::token_stream::IntoIter>;

/// The separator and the operator behind `$(…)`.
fn repetition(tokens: &mut Tokens) -> Option<(Option<String>, char)> {
    let mut separator = String::new();
    loop {
        let token = tokens.next()?;
        if let TokenTree::Punct(punct) = &token {
            let operator = punct.as_char();
            let last = !matches!(tokens.peek(), Some(TokenTree::Punct(next))
                if punct.spacing() == Spacing::Alone && separator.is_empty()
                    && matches!(next.as_char(), '*' | '+' | '?') && operator != '*');
            if matches!(operator, '*' | '+' | '?') && last {
                return Some(((!separator.is_empty()).then_some(separator), operator));
            }
        }
        separator.push_str(&token.to_string());
        if separator.len() > 16 {
            return None;
        }
    }
}

fn matches(
    patterns: &[Pattern],
    input: ParseStream<'_>,
    bindings: &mut Bindings,
) -> syn::Result<()> {
    for (index, pattern) in patterns.iter().enumerate() {
        match pattern {
            Pattern::Token(expected) => {
                let token: TokenTree = input.parse()?;
                if token.to_string() != *expected {
                    return Err(syn::Error::new(token.span(), "another token"));
                }
            }
            Pattern::Group(delimiter, inner) => {
                let token: TokenTree = input.parse()?;
                match token {
                    TokenTree::Group(group) if group.delimiter() == *delimiter => {
                        let parser = |content: ParseStream<'_>| {
                            matches(inner, content, bindings)?;
                            match content.is_empty() {
                                true => Ok(()),
                                false => Err(content.error("more than the rule matches")),
                            }
                        };
                        parser.parse2(group.stream())?;
                    }
                    other => return Err(syn::Error::new(other.span(), "no such group")),
                }
            }
            Pattern::Variable(name, kind) => {
                bindings.insert(name.clone(), Bound::One(fragment(kind, input)?));
            }
            Pattern::Repeat {
                inner,
                separator,
                operator,
            } => {
                let rest = &patterns[index + 1..];
                repeat(
                    inner,
                    separator.as_deref(),
                    *operator,
                    rest,
                    input,
                    bindings,
                )?;
            }
        }
    }
    Ok(())
}

fn repeat(
    inner: &[Pattern],
    separator: Option<&str>,
    operator: char,
    rest: &[Pattern],
    input: ParseStream<'_>,
    bindings: &mut Bindings,
) -> syn::Result<()> {
    let mut rounds: Vec<Bindings> = Vec::new();
    while !input.is_empty() {
        // A token that stands behind the repetition ends it.
        if let Some(Pattern::Token(next)) = rest.first()
            && separator != Some(next)
            && input
                .fork()
                .parse::<TokenTree>()
                .is_ok_and(|token| token.to_string() == *next)
        {
            break;
        }
        let ahead = input.fork();
        if let (Some(separator), false) = (separator, rounds.is_empty()) {
            let matched = separator.chars().all(|expected| {
                ahead
                    .parse::<TokenTree>()
                    .is_ok_and(|token| token.to_string().starts_with(expected))
            });
            if !matched {
                break;
            }
        }
        let mut round = Bindings::new();
        if matches(inner, &ahead, &mut round).is_err() {
            break;
        }
        syn::parse::discouraged::Speculative::advance_to(input, &ahead);
        rounds.push(round);
        if operator == '?' {
            break;
        }
    }
    if operator == '+' && rounds.is_empty() {
        return Err(input.error("nothing to repeat"));
    }
    let mut names = BTreeSet::new();
    variables(inner, &mut names);
    for name in names {
        let bound = rounds
            .iter()
            .filter_map(|round| round.get(&name).cloned())
            .collect();
        bindings.insert(name, Bound::Many(bound));
    }
    Ok(())
}

fn variables(patterns: &[Pattern], found: &mut BTreeSet<String>) {
    for pattern in patterns {
        match pattern {
            Pattern::Variable(name, _) => {
                found.insert(name.clone());
            }
            Pattern::Group(_, inner) | Pattern::Repeat { inner, .. } => variables(inner, found),
            Pattern::Token(_) => {}
        }
    }
}

fn fragment(kind: &str, input: ParseStream<'_>) -> syn::Result<TokenStream> {
    Ok(match kind {
        "ident" => {
            use syn::ext::IdentExt;
            input.call(syn::Ident::parse_any)?.into_token_stream()
        }
        "ty" => input.parse::<syn::Type>()?.into_token_stream(),
        "path" => input.parse::<syn::Path>()?.into_token_stream(),
        "expr" | "expr_2021" => {
            let expression = input.parse::<syn::Expr>()?.into_token_stream();
            TokenTree::Group(Group::new(Delimiter::None, expression)).into()
        }
        "literal" => input.parse::<syn::Lit>()?.into_token_stream(),
        "lifetime" => input.parse::<syn::Lifetime>()?.into_token_stream(),
        "vis" => input.parse::<syn::Visibility>()?.into_token_stream(),
        "block" => input.parse::<syn::Block>()?.into_token_stream(),
        "item" => input.parse::<syn::Item>()?.into_token_stream(),
        "stmt" => input.parse::<syn::Stmt>()?.into_token_stream(),
        "meta" => input.parse::<syn::Meta>()?.into_token_stream(),
        "pat" | "pat_param" => input
            .call(syn::Pat::parse_multi_with_leading_vert)?
            .into_token_stream(),
        "tt" => input.parse::<TokenTree>()?.into(),
        _ => return Err(input.error("a kind of fragment that is not known")),
    })
}

fn transcribe(body: TokenStream, bindings: &Bindings) -> Option<TokenStream> {
    let mut written = TokenStream::new();
    let mut tokens = body.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => match tokens.next()? {
                TokenTree::Group(group) => {
                    let (separator, _) = repetition(&mut tokens)?;
                    let separator: Option<TokenStream> = separator
                        .map(|separator| separator.parse())
                        .transpose()
                        .ok()?;
                    let mut used = BTreeSet::new();
                    mentioned(&group.stream(), &mut used);
                    let rounds = used.iter().filter_map(|name| match bindings.get(name) {
                        Some(Bound::Many(rounds)) => Some(rounds.len()),
                        _ => None,
                    });
                    for round in 0..rounds.max()? {
                        let mut inner = bindings.clone();
                        for name in &used {
                            if let Some(Bound::Many(rounds)) = bindings.get(name) {
                                inner.insert(name.clone(), rounds.get(round)?.clone());
                            }
                        }
                        if let (Some(separator), true) = (&separator, round > 0) {
                            written.extend(separator.clone());
                        }
                        written.extend(transcribe(group.stream(), &inner)?);
                    }
                }
                TokenTree::Ident(name) => match bindings.get(&name.to_string()) {
                    Some(Bound::One(tokens)) => written.extend(tokens.clone()),
                    Some(Bound::Many(_)) => return None,
                    None if name == "crate" => written.extend([TokenTree::Ident(name)]),
                    None => return None,
                },
                _ => return None,
            },
            TokenTree::Group(group) => {
                let mut inner =
                    Group::new(group.delimiter(), transcribe(group.stream(), bindings)?);
                inner.set_span(group.span());
                written.extend([TokenTree::Group(inner)]);
            }
            other => written.extend([other]),
        }
    }
    Some(written)
}

fn mentioned(tokens: &TokenStream, found: &mut BTreeSet<String>) {
    let mut tokens = tokens.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => {
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    found.insert(name.to_string());
                }
            }
            TokenTree::Group(group) => mentioned(&group.stream(), found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expands(definition: &str, input: &str, expected: Option<&str>) {
        let rules = Macro::read(definition.parse().unwrap()).unwrap();
        let found = rules
            .expand(&input.parse().unwrap())
            .map(|tokens| tokens.to_string());
        let expected = expected.map(|text| text.parse::<TokenStream>().unwrap().to_string());
        assert_eq!(found, expected);
    }

    #[test]
    fn variables_are_replaced() {
        expands(
            "($t:ident, $b:ty) => { impl $t for $b {} }",
            "Ops, crate::Flex<f32>",
            Some("impl Ops for crate::Flex<f32> {}"),
        );
    }

    #[test]
    fn the_first_rule_that_matches_serves() {
        let rules = "(a $x:ident) => { A $x }; (b $x:ident) => { B $x };";
        expands(rules, "b c", Some("B c"));
        expands(rules, "d c", None);
    }

    #[test]
    fn repetitions_repeat() {
        expands(
            "($t:ident: $($b:ty),+ $(,)?) => { $(impl $t for $b {})+ }",
            "Ops: Flex, NdArray,",
            Some("impl Ops for Flex {} impl Ops for NdArray {}"),
        );
        expands(
            "($(#[$doc:meta])* $($t:ident => [$($b:ty),*]);*) => { $($(impl $t for $b {})*)* }",
            "#[doc = \"x\"] A => [B, C]; D => [E]",
            Some("impl A for B {} impl A for C {} impl D for E {}"),
        );
    }
}
