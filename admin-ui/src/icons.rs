//! Line drawings of 24 by 24 units, drawn for this panel.

use crate::markup::Markup;

const PATHS: &[(&str, &str)] = &[
    ("overview", "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z"),
    (
        "throttling",
        "M4 4h4v4H4zM10 4h4v4h-4zM16 4h4v4h-4zM4 10h4v4H4zM10 10h4v4h-4zM16 10h4v4h-4zM4 16h4v4H4zM10 16h4v4h-4zM16 16h4v4h-4z",
    ),
    ("events", "M4 6h10M4 12h16M4 18h7M17 4v4M19 6h-4"),
    ("alerts", "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4"),
    ("tenants", "M4 20V8l6-4v16M10 20V9l10-3v14M3 20h18M14 11h2M14 15h2M7 9v0M7 13v0"),
    ("agents", "M5 9h14v10H5zM12 9V5M12 4v0M9 13v1M15 13v1M2 13v3M22 13v3M9.500 17h5"),
    ("keys", "M14 10a4 4 0 1 0-3.500 3.970L12 15.500V18h2.500v2.500H18V17l-4.600-4.600A4 4 0 0 0 14 10zM9 9v0"),
    ("limits", "M4 18a9 9 0 1 1 16 0M12 14l4-5M12 14v0M4 18h2M18 18h2"),
    ("plans", "M12 3l9 5-9 5-9-5zM3 12l9 5 9-5M3 16l9 5 9-5"),
    (
        "tools",
        "M14.500 6.500a4 4 0 0 1 5-2.500l-2.500 2.500.500 2 2 .500L22 6.500a4 4 0 0 1-5.500 4.900L8 20a2.100 2.100 0 0 1-3-3l8.600-8.500a4 4 0 0 1 .900-2z",
    ),
    ("audit", "M6 3h9l4 4v14H6zM15 3v4h4M9.500 12h6M9.500 16h6"),
    (
        "people",
        "M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20a6.500 6.500 0 0 1 13 0M16 4.500a3.500 3.500 0 0 1 0 6M18 14a6.500 6.500 0 0 1 3.500 6",
    ),
    ("system", "M4 5h16v6H4zM4 13h16v6H4zM7.500 8v0M7.500 16v0M11 8h6M11 16h6"),
    ("search", "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l5 5"),
    ("menu", "M4 6h16M4 12h16M4 18h16"),
    ("close", "M6 6l12 12M18 6L6 18"),
    ("plus", "M12 5v14M5 12h14"),
    ("ok", "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM8 12.500l3 3 5-6"),
    ("warn", "M12 4l9.500 16h-19zM12 10v4M12 17v0"),
    ("bad", "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 8v5M12 16v0"),
    ("info", "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5M12 8v0"),
    ("copy", "M8 8h12v12H8zM16 8V4H4v12h4"),
    ("download", "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M4 20h16"),
    ("out", "M10 4H4v16h6M15 8l4 4-4 4M19 12H9"),
    ("clock", "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.500 2"),
    ("arrow", "M5 12h14M13 6l6 6-6 6"),
];

/// A drawing that says nothing by itself: text stands beside it.
pub(crate) fn icon(name: &str) -> Markup {
    let path = PATHS.iter().find(|(known, _)| *known == name).map_or("", |(_, path)| path);
    Markup::trusted(format!(
        "<svg class=\"icon\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><path d=\"{path}\"/></svg>"
    ))
}
