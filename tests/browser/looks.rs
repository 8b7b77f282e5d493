//! Every page, in both themes, wide and narrow, in both languages: what a screen reader and a ruler say of it, what the
//! console says, and pictures for people to look at in `target/screenshots/`.

use std::path::{Path, PathBuf};

use sluicegate_tests::{Database, TestServer};

use crate::browser::Browser;
use crate::chromium::{Scripts, in_chromium, skip};
use crate::seeded::Seeded;

/// The variable with the file of axe-core.
const AXE: &str = "SLUICEGATE_TEST_AXE";

/// The two widths that every page is looked at in.
const WIDE: (u32, u32) = (1280, 900);
const NARROW: (u32, u32) = (360, 780);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_sound_in_the_light_theme() {
    look_at_every_page("light").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_sound_in_the_dark_theme() {
    look_at_every_page("dark").await;
}

async fn look_at_every_page(theme: &'static str) {
    let seeded = Seeded::start().await;
    let judge = Judge::new(theme);
    in_chromium(&seeded.server, Scripts::On, async |browser| {
        browser.open("/admin/sign-in").await;
        dress(browser, theme).await;
        judge.look(browser, "sign-in").await;
        seeded.sign_in(browser).await;
        for (name, path) in seeded.pages() {
            browser.open(&path).await;
            judge.look(browser, name).await;
        }
        // Pages that answer a form.
        browser.open("/admin/tenants/new").await;
        browser.fill("#name", "Another").await;
        browser.fill("#slug", "Not A Slug").await;
        browser.press("Create tenant").await;
        browser.shows("#slug-error", "Not A Slug").await;
        judge.look(browser, "tenants-new-refused").await;
        browser.open(&format!("{}/keys/new", seeded.agent())).await;
        browser.fill("#name", "laptop").await;
        browser.press("Create key").await;
        judge.look(browser, "key-created").await;
        browser.open(&seeded.cell()).await;
        browser.fill("#value", "55/min").await;
        browser.shows("#preview", "would have been refused").await;
        judge.look(browser, "cell-preview").await;
        browser.type_keys("\u{e00c}").await;
        browser.press_on("h1").await;
        browser.type_keys("?").await;
        browser.shows("#help-title", "Keys").await;
        judge.look(browser, "help").await;
    })
    .await;
    judge.conclude();
    seeded.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_sound_before_there_is_anything_and_in_japanese() {
    let server = TestServer::start(&Database::sqlite().await).await;
    let link = server.set_up_link().await.expect("nobody can sign in yet");
    let judge = Judge::new("light");
    in_chromium(&server, Scripts::On, async |browser| {
        browser.open("/admin/sign-in").await;
        judge.look(browser, "first-run").await;
        browser.open(&link).await;
        judge.look(browser, "set-up").await;
        browser.fill("#name", "olga").await;
        browser.fill("#password", crate::seeded::PASSWORD).await;
        browser.press("Create the owner").await;
        browser.shows("h1", "Overview").await;
        browser.open(&link).await;
        judge.look(browser, "set-up-void").await;
        for (name, path) in NOTHING_YET {
            browser.open(path).await;
            judge.look(browser, &format!("empty-{name}")).await;
        }
        browser.press_on("button[name=language][value=ja]").await;
        browser.shows("h1", "テナント").await;
        for (name, path) in NOTHING_YET {
            browser.open(path).await;
            assert_eq!(browser.run("return document.documentElement.lang", Vec::new()).await, "ja");
            judge.look(browser, &format!("ja-{name}")).await;
        }
    })
    .await;
    judge.conclude();
    server.stop().await;
}

/// The pages that there are without a tenant; the last has the tenants' heading.
const NOTHING_YET: &[(&str, &str)] = &[
    ("overview", "/admin"),
    ("throttling", "/admin/throttling"),
    ("events", "/admin/events"),
    ("alerts", "/admin/alerts"),
    ("agents", "/admin/agents"),
    ("limits", "/admin/limits"),
    ("plans", "/admin/plans"),
    ("tools", "/admin/tools"),
    ("audit", "/admin/audit"),
    ("people", "/admin/people"),
    ("system", "/admin/system"),
    ("tenants", "/admin/tenants"),
];

/// Chooses a theme as people do.
async fn dress(browser: &Browser, theme: &str) {
    browser.press_on(&format!("button[name=theme][value={theme}]")).await;
    browser.find(&format!("html[data-theme={theme}]")).await;
}

/// Looks at pages and remembers what is wrong with them.
struct Judge {
    theme: &'static str,
    axe: Option<String>,
    pictures: PathBuf,
    found: std::sync::Mutex<Vec<String>>,
}

impl Judge {
    fn new(theme: &'static str) -> Self {
        let axe = std::env::var_os(AXE).map(|path| std::fs::read_to_string(path).expect("axe-core"));
        if axe.is_none() {
            skip(&format!("{AXE} does not name the file of axe-core"));
        }
        let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("screenshots");
        std::fs::create_dir_all(&pictures).expect("a folder");
        Self { theme, axe, pictures, found: <_>::default() }
    }

    async fn look(&self, browser: &Browser, name: &str) {
        if let Some(axe) = &self.axe {
            browser.run(axe, Vec::new()).await;
        }
        for (label, (width, height)) in [("wide", WIDE), ("narrow", NARROW)] {
            browser.resize(width, height).await;
            let measured = browser.run("return document.documentElement.scrollWidth", Vec::new()).await;
            if measured.as_u64().expect("a number") > u64::from(width) {
                self.find(format!("{name} is {measured} px wide where there are {width}"));
            }
            if self.axe.is_some() {
                for violation in self.violations(browser).await {
                    self.find(format!("{name}, {label}: {violation}"));
                }
            }
            let file = self.pictures.join(format!("{name}-{}-{label}.png", self.theme));
            let picture = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, browser.picture().await);
            std::fs::write(file, picture.expect("base64")).expect("the picture is written");
        }
        browser.resize(WIDE.0, WIDE.1).await;
        browser.assert_quiet().await;
    }

    /// What axe-core finds wrong with the page as it is now.
    async fn violations(&self, browser: &Browser) -> Vec<String> {
        const RUN: &str = "const done = arguments[0];
            axe.run(document, { resultTypes: ['violations'], selectors: false, iframes: false, preload: false })
                .then((results) => done(results.violations.map((it) =>
                    `${it.id} (${it.help}): ` + it.nodes.map((node) => node.html + ' ' + node.failureSummary).join('; '))))
                .catch((error) => done([String(error)]));";
        let found = browser.run_async(RUN, Vec::new()).await;
        let found = found.as_array().expect("a list").iter();
        found.map(|violation| violation.as_str().unwrap_or_default().to_owned()).collect()
    }

    fn find(&self, what: String) {
        self.found.lock().expect("nobody panicked with it").push(what);
    }

    /// Fails with everything that was found.
    fn conclude(self) {
        let found = self.found.into_inner().expect("nobody panicked with it");
        assert!(found.is_empty(), "{} things are wrong:\n{}", found.len(), found.join("\n\n"));
    }
}
