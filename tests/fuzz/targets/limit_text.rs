//! The text of a limit: whatever is accepted is written in a form that is read back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_limits::{Quota, Quotas};

fuzz_target!(|text: &str| {
    match text.parse::<Quota>() {
        Ok(quota) => assert_eq!(quota.to_string().parse(), Ok(quota), "{text:?}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(quotas) = text.parse::<Quotas>() {
        assert_eq!(quotas.to_string().parse(), Ok(quotas), "{text:?}");
    }
});
