//! Values on their way into a statement and out of a row.

use std::borrow::Cow;

use sqlx::query::{Query, QueryAs};
use sqlx::{Database, Encode, FromRow, Type};

/// A bound value. Columns have three types, so there are three kinds.
#[derive(Clone)]
pub(crate) enum Arg<'a> {
    Text(Option<Cow<'a, str>>),
    Int(Option<i64>),
    Bool(bool),
}

/// Postgres has no NUL in texts and fails on one. Nothing that is stored has any, so a
/// name with one must be found not to exist, on both databases.
fn without_nul(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Some(text).into()
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        Some(text).into()
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(text: Option<&'a str>) -> Self {
        Self::Text(text.map(Cow::Borrowed).map(without_nul))
    }
}

impl From<Option<String>> for Arg<'_> {
    fn from(text: Option<String>) -> Self {
        Self::Text(text.map(Cow::Owned).map(without_nul))
    }
}

impl From<Option<i64>> for Arg<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Int(number)
    }
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<bool> for Arg<'_> {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

/// The values of `$1`, `$2` and so on.
/// `$3, $4, $5`: places for so many values, from the one of this number on.
pub(crate) fn places(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// So many of these, the last one again and again: a statement has a fixed number of places.
pub(crate) fn filled_up<T: Copy>(some: &[T], count: usize) -> impl Iterator<Item = T> {
    some.iter().chain(some.last().into_iter().cycle()).copied().take(count)
}

macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::db::Arg::from($value)),*] };
}
pub(crate) use args;

macro_rules! bind_all {
    ($query:expr, $args:expr) => {
        $args.iter().fold($query, |query, arg| match arg {
            Arg::Text(text) => query.bind(text.as_deref()),
            Arg::Int(number) => query.bind(*number),
            Arg::Bool(truth) => query.bind(*truth),
        })
    };
}

/// A statement that returns rows, with its values bound.
pub(super) fn query_as<'q, DB: Database, R>(sql: &'static str, args: &'q [Arg<'q>]) -> QueryAs<'q, DB, R, DB::Arguments>
where
    R: for<'r> FromRow<'r, DB::Row>,
    for<'t> Option<&'t str>: Encode<'t, DB> + Type<DB>,
    Option<i64>: for<'t> Encode<'t, DB> + Type<DB>,
    bool: for<'t> Encode<'t, DB> + Type<DB>,
{
    bind_all!(sqlx::query_as(sql), args)
}

/// A statement that returns nothing, with its values bound.
pub(super) fn query<'q, DB: Database>(sql: &'static str, args: &'q [Arg<'q>]) -> Query<'q, DB, DB::Arguments>
where
    for<'t> Option<&'t str>: Encode<'t, DB> + Type<DB>,
    Option<i64>: for<'t> Encode<'t, DB> + Type<DB>,
    bool: for<'t> Encode<'t, DB> + Type<DB>,
{
    bind_all!(sqlx::query(sql), args)
}

/// Reads a text column into a type by its `FromStr`.
macro_rules! text_column {
    ($type:ty) => {
        $crate::db::text_column!($type, text => text.parse().map_err(Into::into));
    };
    ($type:ty, $text:ident => $read:expr) => {
        impl<DB: sqlx::Database> sqlx::Type<DB> for $type
        where
            str: sqlx::Type<DB>,
        {
            fn type_info() -> DB::TypeInfo {
                <str as sqlx::Type<DB>>::type_info()
            }

            fn compatible(found: &DB::TypeInfo) -> bool {
                <str as sqlx::Type<DB>>::compatible(found)
            }
        }

        impl<'r, DB: sqlx::Database> sqlx::Decode<'r, DB> for $type
        where
            &'r str: sqlx::Decode<'r, DB>,
        {
            fn decode(
                value: DB::ValueRef<'r>,
            ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
                let $text = <&str as sqlx::Decode<DB>>::decode(value)?;
                $read
            }
        }
    };
}
pub(crate) use text_column;

/// Reads a text column that holds JSON.
macro_rules! json_column {
    ($type:ty) => {
        $crate::db::text_column!($type, text => serde_json::from_str(text).map_err(Into::into));
    };
}
pub(crate) use json_column;
