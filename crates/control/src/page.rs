//! Lists, a page at a time.
//!
//! Paging is by keyset: a page ends with the sort key of its last item, and the next
//! one starts behind it. Pages stay correct while rows come and go, and the thousandth
//! costs what the first did.

use std::fmt;
use std::str::FromStr;

use serde::Serializer;

use crate::error::ControlError;

/// Which page of a list to read.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Where the page before this one ended; `None` for the first.
    pub after: Option<Cursor>,
    /// How many items at most: 1 to [`PageRequest::MAX`].
    pub limit: u16,
}

impl PageRequest {
    /// The most items of one page.
    pub const MAX: u16 = 200;

    /// The first page, of `limit` items.
    pub const fn first(limit: u16) -> Self {
        Self { after: None, limit }
    }

    /// Checks the size and reads the cursor as a sort key of `N` parts. The first page
    /// has empty parts, which sort before everything.
    pub(crate) fn key<const N: usize>(&self) -> Result<[String; N], ControlError> {
        if !(1..=Self::MAX).contains(&self.limit) {
            let message = format!("limit must be 1 to {}, not {}", Self::MAX, self.limit);
            return Err(ControlError::invalid("limit", &self.limit, &message));
        }
        let Some(Cursor(parts)) = &self.after else { return Ok([const { String::new() }; N]) };
        parts.clone().try_into().map_err(|_| ControlError::invalid("cursor", "", "this cursor belongs to another list"))
    }

    /// How many rows to ask for: one more than the page holds, see [`Page::new`].
    pub(crate) fn rows(&self) -> i64 {
        i64::from(self.limit) + 1
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        Self::first(50)
    }
}

/// Where a page ended. Its text is opaque and safe inside a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Vec<String>);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sort keys are names and ids; none has a line break.
        f.write_str(&hex::encode(self.0.join("\n")))
    }
}

/// Writes a cursor as its text.
pub(crate) fn as_text<S: Serializer>(cursor: &Option<Cursor>, serializer: S) -> Result<S::Ok, S::Error> {
    match cursor {
        Some(cursor) => serializer.collect_str(cursor),
        None => serializer.serialize_none(),
    }
}

impl FromStr for Cursor {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        let bytes = hex::decode(text).ok();
        let joined = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let parts = joined.filter(|joined| !joined.contains('\0'));
        parts
            .map(|parts| Self(parts.split('\n').map(str::to_owned).collect()))
            .ok_or_else(|| ControlError::invalid("cursor", text, "this is not a cursor that a list has given out"))
    }
}

/// Part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub items: Vec<T>,
    /// Where to go on; `None` when this was the last page.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// Makes a page of rows that were read with one more than the `limit` asked for,
    /// which tells whether there is a next page.
    pub(crate) fn new(mut items: Vec<T>, request: &PageRequest, key: impl Fn(&T) -> Vec<String>) -> Self {
        let limit = usize::from(request.limit);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|last| Cursor(key(last)));
        Self { items, next }
    }

    /// The page, with a next one in any case: it goes on at this key if the page itself does not say where.
    pub(crate) fn or_next(mut self, key: Vec<String>) -> Self {
        self.next.get_or_insert(Cursor(key));
        self
    }

    /// A page of a list that has nothing.
    pub(crate) const fn empty() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_from_the_text_it_prints() {
        let cursor = Cursor(vec!["acme/übung".to_owned(), String::new()]);
        assert_eq!(cursor.to_string().parse::<Cursor>().expect("reads back"), cursor);
    }

    #[test]
    fn a_cursor_that_no_list_gave_out_is_refused() {
        assert!("zz".parse::<Cursor>().is_err());
        assert!("ff".parse::<Cursor>().is_err());
        assert!("00".parse::<Cursor>().is_err(), "Postgres has no NUL in texts");
        let other = PageRequest { after: Some(Cursor(vec!["a".into()])), limit: 1 };
        assert!(other.key::<2>().is_err());
    }

    #[test]
    fn a_page_of_more_than_200_or_of_nothing_is_refused() {
        assert!(PageRequest::first(200).key::<1>().is_ok());
        assert!(PageRequest::first(201).key::<1>().is_err());
        assert!(PageRequest::first(0).key::<1>().is_err());
    }
}
