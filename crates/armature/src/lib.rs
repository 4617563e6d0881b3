//! Fused tensor ops for [Burn](burn), with gradients, whose every backend is proven to be there.
//!
//! Each op is a function on `Tensor<D>` that panics on bad input, as Burn's own do, and a `try_`
//! function that returns a [`DispatchError`] instead, with the same text. Which backends exist is
//! the choice of this crate's features, which have Burn's names.
//!
//! | op | function |
//! |---|---|
//! | [`RmsNorm`] | [`rms_norm`], [`try_rms_norm`] |
//!
//! Ops of your own are declared with what [`core`] holds.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub use armature_core as core;
pub use armature_core::{BackendTag, DispatchError, arms, coverage, supported_backends};

#[allow(unused_imports)] // Not in a build without kernels.
pub(crate) mod error;
mod rms_norm;

pub use rms_norm::{RmsNorm, rms_norm, try_rms_norm};

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
