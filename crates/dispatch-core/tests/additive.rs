//! Features are additive: here burn-armature's features turn backends on, and an op of a crate that
//! has no features gets its arms.

#![cfg(feature = "ndarray")]

use armature_core::{ArmKind, BackendTag, coverage};
use armature_test_author::Twice;

#[test]
fn the_op_of_a_crate_without_features_has_its_arms() {
    let row = coverage::<Twice>()
        .iter()
        .flatten()
        .find(|row| row.backend == BackendTag::NdArray);
    assert_eq!(row.unwrap().forward, ArmKind::Kernel);
}
