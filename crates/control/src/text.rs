//! The rules for the short texts people give to things.

use crate::error::ControlError;

/// A tenant's slug or a plan's name: 1 to 63 characters of `a-z`, `0-9` and `-`.
pub(crate) fn slug(field: &'static str, value: &str) -> Result<(), ControlError> {
    let good = (1..=63).contains(&value.len())
        && value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good {
        return Ok(());
    }
    let message = format!("{field} {value:?} must be 1 to 63 characters: lower-case letters, digits and '-'");
    Err(ControlError::invalid(field, value, &message))
}

/// A name or note: at most `max` bytes, no control characters.
fn line(field: &'static str, value: &str, max: usize) -> Result<(), ControlError> {
    let message = if value.len() > max {
        format!("{field} must be at most {max} bytes long, this has {}", value.len())
    } else if value.chars().any(char::is_control) {
        format!("{field} {value:?} must not contain control characters")
    } else {
        return Ok(());
    };
    Err(ControlError::invalid(field, value, &message))
}

/// A name for people: 1 to 256 bytes in one line.
pub(crate) fn name(field: &'static str, value: &str) -> Result<(), ControlError> {
    if value.trim().is_empty() {
        return Err(ControlError::invalid(field, value, &format!("{field} must not be empty")));
    }
    line(field, value, 256)
}

/// A remark: up to 500 bytes in one line, may be empty.
pub(crate) fn note(value: &str) -> Result<(), ControlError> {
    line("note", value, 500)
}

/// A LIKE pattern (with `\` as the escape) for what begins and ends like this with `text` between. For texts in lower
/// case lower the text first: the databases do not agree on `lower` of a parameter outside of ASCII.
pub(crate) fn like(text: &str, begin: &str, end: &str) -> String {
    let mut pattern = String::from(begin);
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push_str(end);
    pattern
}
