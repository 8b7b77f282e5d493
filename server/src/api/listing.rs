//! Lists, a page at a time.

use axum::Json;
use serde::Serialize;
use sluicegate_control::{Page, PageRequest};
use utoipa::ToSchema;

use super::problem::{Kind, Problem};

/// One page of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct Listing<T> {
    /// What is on the page.
    items: Vec<T>,
    /// The `cursor` of the next page; null on the last one.
    next: Option<String>,
}

impl<T> Listing<T> {
    /// A page of the control plane.
    pub(crate) fn of<U>(page: Page<U>, view: impl FnMut(U) -> T) -> Json<Self> {
        let next = page.next.map(|cursor| cursor.to_string());
        Json(Self { items: page.items.into_iter().map(view).collect(), next })
    }

    /// A list that has one page.
    pub(crate) fn whole(items: Vec<T>) -> Json<Self> {
        Json(Self { items, next: None })
    }
}

impl<T> From<Page<T>> for Listing<T> {
    fn from(page: Page<T>) -> Self {
        Self { items: page.items, next: page.next.map(|cursor| cursor.to_string()) }
    }
}

/// Which page is asked for.
pub(crate) fn page(cursor: Option<&str>, limit: Option<u16>) -> Result<PageRequest, Problem> {
    let after = cursor.map(str::parse).transpose()?;
    let limit = limit.unwrap_or(50);
    if !(1..=PageRequest::MAX).contains(&limit) {
        let detail = format!("limit must be 1 to {}, not {limit}.", PageRequest::MAX);
        return Err(Problem::at(Kind::Malformed, "?limit", detail));
    }
    Ok(PageRequest { after, limit })
}
