//! What the macros' output names. No part of the public interface: it changes without notice.

pub use sluicegate_mcp::__private::*;

pub use crate::declared::Declared;
