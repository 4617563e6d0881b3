//! What must not compile, and what the compiler says about it.

#[test]
#[cfg(all(
    feature = "flex",
    feature = "ndarray",
    feature = "autodiff",
    not(feature = "__cube")
))]
fn gaps_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
