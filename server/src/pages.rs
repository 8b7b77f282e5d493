//! Lists of the control plane come in pages; commands print all of them.

use sluicegate_control::{ControlError, Page, PageRequest};

/// Reads every page of a list.
pub(crate) async fn all<T>(
    mut read: impl AsyncFnMut(&PageRequest) -> Result<Page<T>, ControlError>,
) -> Result<Vec<T>, ControlError> {
    let mut items = Vec::new();
    let mut request = PageRequest::first(PageRequest::MAX);
    loop {
        let page = read(&request).await?;
        items.extend(page.items);
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(items),
        }
    }
}
