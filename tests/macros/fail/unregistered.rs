//! Registering what is no tool.
use sluicegate::{FreeTool, ToolSet};

struct Plain;

fn register<T: FreeTool>() {}

fn register_all(_tools: impl ToolSet) {}

fn main() {
    register::<Plain>();
    register_all(Plain);
}
