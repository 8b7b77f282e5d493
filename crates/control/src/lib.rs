//! Sluicegate control.
