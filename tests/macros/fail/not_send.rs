//! A tool that holds what cannot be sent to another thread: the error is in the author's code.
use std::rc::Rc;

use sluicegate::prelude::*;

#[tool]
async fn shared() -> usize {
    let rc = Rc::new(1);
    std::future::ready(()).await;
    *rc
}

fn main() {}
