//! Sluicegate macros.
