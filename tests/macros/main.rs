//! The macros `#[tools]` and `#[tool]`, seen from outside: what compiles, what does not and how that reads, and what the
//! tools do when they are called.

mod arguments;
mod attributes;
mod compile_fail;
mod outputs;
mod registration;
mod scope;
