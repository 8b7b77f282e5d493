//! Sluicegate limits.
