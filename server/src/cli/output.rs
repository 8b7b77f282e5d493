//! What commands print: a table for people, or JSON for programs.

use std::io::Write as _;

use serde::Serialize;

/// Where and how results are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints one result: as JSON, or as the text.
    pub(crate) fn result(self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { text() };
        writeln!(std::io::stdout().lock(), "{text}")?;
        Ok(())
    }

    /// Prints a list: as a JSON array, or as a table with these headings.
    pub(crate) fn list<T: Serialize, const N: usize>(
        self,
        items: &[T],
        headings: [&str; N],
        row: impl Fn(&T) -> [String; N],
    ) -> anyhow::Result<()> {
        self.result(&items, || table(headings, items.iter().map(row).collect()))
    }
}

/// Columns as wide as their widest cell; the last one is not padded.
fn table<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<_> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A time in epoch milliseconds as people read it, in UTC. What RFC 3339 cannot write stays a number.
pub(crate) fn time(ms: i64) -> String {
    if !(0..=LAST_OF_RFC3339).contains(&ms) {
        return format!("{ms} ms since 1970");
    }
    let since_epoch = std::time::Duration::from_millis(ms.unsigned_abs());
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since_epoch).to_string()
}

/// The end of the year 9999.
const LAST_OF_RFC3339: i64 = 253_402_300_799_000;

/// The same for a time that may be missing.
pub(crate) fn optional_time(ms: Option<i64>) -> String {
    ms.map_or_else(|| "-".to_owned(), time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![["acme".to_owned(), "active".to_owned()], ["a".to_owned(), "suspended".to_owned()]];
        assert_eq!(table(["SLUG", "STATUS"], rows), "SLUG  STATUS\nacme  active\na     suspended");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(1_700_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(time(LAST_OF_RFC3339), "9999-12-31T23:59:59Z");
        assert_eq!(time(i64::MAX), "9223372036854775807 ms since 1970");
    }
}
