//! Mistakes that the compiler reports, word for word.

/// Rewrite the expected texts with `TRYBUILD=overwrite cargo test -p sluicegate-macros-tests`.
#[test]
fn mistakes_are_compile_errors_at_the_words_in_question() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
