//! Whose task is whose. A task id travels through callers' hands, so knowing one is no right to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::ErrorData;

use crate::passage::Owner;

/// How many tasks are remembered; beyond it the oldest is forgotten, and with it the way to it.
const MOST_TASKS: usize = 100_000;

/// The owners of the tasks that calls have become.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Known>);

#[derive(Default)]
struct Known {
    owners: HashMap<String, Owner>,
    /// The ids, oldest first.
    order: VecDeque<String>,
}

impl Tasks {
    /// Notes that a call of `owner` has become a task.
    pub(super) fn note(&self, id: &str, owner: &Owner) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.owners.insert(id.to_owned(), owner.clone()).is_none() {
            known.order.push_back(id.to_owned());
        }
        if known.order.len() > MOST_TASKS
            && let Some(oldest) = known.order.pop_front()
        {
            known.owners.remove(&oldest);
        }
    }

    /// Refuses everybody but the owner. A task of another is answered like one that does not exist.
    pub(super) fn check(&self, id: &str, owner: &Owner) -> Result<(), ErrorData> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.owners.get(id) == Some(owner) {
            return Ok(());
        }
        Err(ErrorData::invalid_params("task not found", None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(group: &str, member: &str) -> Owner {
        Owner { group: group.into(), member: member.into() }
    }

    #[test]
    fn a_task_exists_for_its_owner_alone() {
        let tasks = Tasks::default();
        tasks.note("t-1", &owner("acme", "bot"));
        assert!(tasks.check("t-1", &owner("acme", "bot")).is_ok());
        for stranger in [owner("acme", "other"), owner("globex", "bot")] {
            assert_eq!(tasks.check("t-1", &stranger).err(), tasks.check("t-2", &stranger).err());
            assert!(tasks.check("t-1", &stranger).is_err());
        }
    }
}
