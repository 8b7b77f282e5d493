//! Sluicegate.
