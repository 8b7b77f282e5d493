//! The text of an API key: nothing panics, and what is refused is never repeated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_control::{ApiKey, KeyFormatError};

/// All that is ever said of a text that is refused.
const SAID: [KeyFormatError; 3] = [KeyFormatError::Shape, KeyFormatError::Environment, KeyFormatError::Checksum];

fuzz_target!(|text: &str| {
    match ApiKey::parse(text) {
        Ok(parsed) => {
            let printed = format!("{parsed:?}");
            let secret = text.split('_').nth(3).unwrap_or_default();
            assert!(!printed.contains(secret), "{printed}");
        }
        Err(error) => assert!(SAID.iter().any(|said| said.to_string() == error.to_string()), "{error}"),
    }
});
