//! The operator's panel of Sluicegate: server-rendered pages that work without scripts.
