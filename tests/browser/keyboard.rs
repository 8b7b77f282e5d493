//! The panel without a mouse.

use crate::browser::Browser;
use crate::chromium::{Scripts, in_chromium};
use crate::seeded::{PASSWORD, Seeded};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_found_and_changed_with_the_keyboard_alone() {
    let seeded = Seeded::start().await;
    in_chromium(&seeded.server, Scripts::On, async |browser| {
        // The door has the focus where one begins to type.
        browser.open("/admin/sign-in").await;
        browser.type_keys("olga").await;
        browser.type_keys(TAB).await;
        browser.type_keys(PASSWORD).await;
        browser.type_keys(ENTER).await;
        browser.shows("h1", "Overview").await;

        // The first stop is the way past the navigation.
        browser.type_keys(TAB).await;
        assert_eq!(focused(browser).await, "Skip to the content");
        browser.type_keys(ENTER).await;
        assert_eq!(browser.run("return document.activeElement.id", Vec::new()).await, "content");

        browser.type_keys("?").await;
        browser.shows("#help", "Tenants").await;
        browser.type_keys(ESCAPE).await;
        assert_eq!(browser.run("return document.getElementById('help').open", Vec::new()).await, false);

        go(browser, "gt", "Tenants").await;
        browser.type_keys("/").await;
        assert_eq!(browser.run("return document.activeElement.id", Vec::new()).await, "search");
        browser.type_keys("acm").await;
        browser.shows("#list", "Acme Corporation").await;
        browser.type_keys(ESCAPE).await;

        go(browser, "gh", "Throttling").await;
        // Down the page until the hottest cell has the focus.
        tab_to(browser, "td a.l8").await;
        assert!(outlined(browser).await, "whoever tabs sees where they are");
        browser.type_keys(ENTER).await;
        browser.shows(".head", "Throttling").await;
        tab_to(browser, "#value").await;
        browser.run("document.activeElement.select()", Vec::new()).await;
        browser.type_keys("500/min").await;
        browser.shows("#preview", "would have been refused").await;
        browser.type_keys(ENTER).await;
        browser.shows(".notice", "Saved: 500/min.").await;
        for (keys, heading) in [
            ("go", "Overview"),
            ("ge", "Events"),
            ("gr", "Alerts"),
            ("ga", "Agents"),
            ("gl", "Limits"),
            ("gp", "Plans"),
            ("gw", "Tools"),
            ("gu", "Audit log"),
            ("gm", "People"),
            ("gs", "System"),
        ] {
            go(browser, keys, heading).await;
        }
    })
    .await;
    seeded.server.stop().await;
}

async fn go(browser: &Browser, keys: &str, heading: &str) {
    browser.type_keys(keys).await;
    browser.shows("h1", heading).await;
}

async fn focused(browser: &Browser) -> String {
    let text = browser.run("return document.activeElement.textContent.trim()", Vec::new()).await;
    text.as_str().unwrap_or_default().to_owned()
}

/// Whether the element with the focus has a ring around it.
async fn outlined(browser: &Browser) -> bool {
    const RING: &str = "const style = getComputedStyle(document.activeElement);
        return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;";
    browser.run(RING, Vec::new()).await == true
}

/// Presses Tab until an element has the focus.
async fn tab_to(browser: &Browser, css: &str) {
    for _ in 0..120 {
        if browser.run("return document.activeElement.matches(arguments[0])", vec![css.into()]).await == true {
            return;
        }
        browser.type_keys(TAB).await;
    }
    panic!("{css} cannot be reached with Tab on {}", browser.path().await);
}
