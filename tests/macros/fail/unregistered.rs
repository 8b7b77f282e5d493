//! Registering what is no tool.
use sluicegate::FreeTool;

struct Plain;

fn register<T: FreeTool>() {}

fn main() {
    register::<Plain>();
}
