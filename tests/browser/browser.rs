//! What a person does in a browser: look, click, type.

use std::collections::BTreeSet;
use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::chromium::Scripts;
use crate::forms::Sent;

/// How long something may take to show.
const PATIENCE: Duration = Duration::from_secs(10);

/// The form that a button, a field or a list sends.
const FORM: &str = "const sender = arguments[0], form = sender.form;
    if (!form || sender.type === 'button' || form.method === 'dialog') return null;
    const own = sender.hasAttribute('formaction');
    const action = new URL(own ? sender.formAction : form.getAttribute('action'), location.href);
    const names = [...form.elements].map((field) => field.name).filter((name) => name);
    return { method: own ? 'post' : form.method, action: action.pathname, names };";

/// A browser in front of one server.
pub(crate) struct Browser {
    client: Client,
    /// Where the driver takes commands for this session.
    driven: String,
    http: reqwest::Client,
    base: String,
    scripts: Scripts,
    sent: Mutex<BTreeSet<Sent>>,
}

impl Browser {
    pub(crate) fn new(client: Client, driven: String, base: String, scripts: Scripts) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { client, driven, http, base, scripts, sent: Mutex::default() }
    }

    pub(crate) fn has_scripts(&self) -> bool {
        self.scripts == Scripts::On
    }

    /// Opens a page of the server, or any address.
    pub(crate) async fn open(&self, path: &str) {
        let url = if path.starts_with('/') { format!("{}{path}", self.base) } else { path.to_owned() };
        self.client.goto(&url).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub(crate) async fn reload(&self) {
        self.client.refresh().await.expect("the page is loaded again");
    }

    /// The path and query of the page.
    pub(crate) async fn path(&self) -> String {
        let url = self.client.current_url().await.expect("a page");
        url.as_str().strip_prefix(&self.base).unwrap_or(url.as_str()).to_owned()
    }

    pub(crate) async fn source(&self) -> String {
        self.client.source().await.expect("a page")
    }

    /// The element of a CSS selector, as soon as there is one.
    pub(crate) async fn find(&self, css: &str) -> Element {
        self.find_by(Locator::Css(css), css).await
    }

    async fn find_by(&self, locator: Locator<'_>, shown: &str) -> Element {
        match self.client.wait().at_most(PATIENCE).every(Duration::from_millis(40)).for_element(locator).await {
            Ok(element) => element,
            Err(error) => panic!("{shown} is not on {}: {error}", self.path().await),
        }
    }

    pub(crate) async fn has(&self, css: &str) -> bool {
        !self.all(css).await.is_empty()
    }

    pub(crate) async fn all(&self, css: &str) -> Vec<Element> {
        self.client.find_all(Locator::Css(css)).await.expect("the page is searched")
    }

    /// The text that is shown in an element.
    pub(crate) async fn text(&self, css: &str) -> String {
        self.find(css).await.text().await.expect("a text")
    }

    /// The value of a field.
    pub(crate) async fn value(&self, css: &str) -> String {
        self.find(css).await.prop("value").await.expect("a property").unwrap_or_default()
    }

    /// Waits until an element shows a text.
    pub(crate) async fn shows(&self, css: &str, wanted: &str) {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let mut shown = Vec::new();
            for element in self.all(css).await {
                // What was replaced meanwhile has no text any more.
                shown.push(element.text().await.unwrap_or_default());
            }
            if shown.iter().any(|text| text.contains(wanted)) {
                return;
            }
            let path = self.path().await;
            assert!(tokio::time::Instant::now() < until, "{css} on {path} does not show {wanted:?} but {shown:?}");
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    /// Loads the page again until it has an element: what was counted is written within a second.
    pub(crate) async fn reload_until(&self, css: &str) {
        let until = tokio::time::Instant::now() + PATIENCE;
        while !self.has(css).await {
            assert!(tokio::time::Instant::now() < until, "{css} never comes to {}", self.path().await);
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.reload().await;
        }
    }

    /// Types into a field what stands there from then on.
    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        field.clear().await.expect("a field");
        field.send_keys(text).await.unwrap_or_else(|error| panic!("{css}: {error}"));
        if self.has_scripts() {
            const ASKED: &str = "const form = arguments[0].form;
                for (const method of form ? ['post', 'get'] : []) {
                    const action = form.getAttribute('hx-' + method);
                    const names = [...form.elements].map((field) => field.name).filter((name) => name);
                    if (action) return { method, action, names };
                }
                return null;";
            self.note(ASKED, &field).await;
        }
    }

    /// Types keys where the focus is.
    pub(crate) async fn type_keys(&self, keys: &str) {
        let element = self.client.active_element().await.expect("an element has the focus");
        element.send_keys(keys).await.expect("it takes keys");
    }

    /// Chooses the option with a value. Where choosing sends the form, it is sent.
    pub(crate) async fn choose(&self, css: &str, value: &str) {
        let select = self.find(css).await;
        let sends = self.has_scripts() && select.attr("data-submit").await.expect("an attribute").is_some();
        let changes = select.prop("value").await.expect("a property").as_deref() != Some(value);
        if sends && changes {
            self.note(FORM, &select).await;
        }
        let page = self.find("html").await;
        let named = quoted(value);
        let option = format!(".//option[@value={named} or (not(@value) and normalize-space()={named})]");
        let chosen = select.select_by(Locator::XPath(&option)).await;
        chosen.unwrap_or_else(|error| panic!("{css} = {value}: {error}"));
        if sends && changes {
            self.until_left(&page).await;
        }
    }

    /// Clicks the button or link with this text.
    pub(crate) async fn press(&self, label: &str) {
        self.press_in("", label).await;
    }

    /// Clicks the button or link with this text inside the element that an XPath finds.
    pub(crate) async fn press_in(&self, inside: &str, label: &str) {
        let path =
            format!("{inside}//*[(self::button or self::a or self::summary) and normalize-space()={}]", quoted(label));
        let element = self.find_by(Locator::XPath(&path), &path).await;
        self.click(element, label).await;
    }

    /// Where the link with this text leads.
    pub(crate) async fn link(&self, label: &str) -> String {
        let path = format!("//a[normalize-space()={}]", quoted(label));
        let link = self.find_by(Locator::XPath(&path), &path).await;
        link.attr("href").await.expect("an attribute").expect("an address")
    }

    /// Clicks what a CSS selector finds.
    pub(crate) async fn press_on(&self, css: &str) {
        let element = self.find(css).await;
        self.click(element, css).await;
    }

    async fn click(&self, element: Element, shown: &str) {
        if self.has_scripts() {
            self.note(FORM, &element).await;
        }
        let leaves = leads_away(&element).await;
        let page = self.find("html").await;
        if let Err(error) = element.click().await {
            panic!("{shown} on {} cannot be clicked: {error}", self.path().await);
        }
        if leaves {
            self.until_left(&page).await;
        }
    }

    /// Waits until a page is not there any more: what is looked for next must not be found on it.
    async fn until_left(&self, page: &Element) {
        let until = tokio::time::Instant::now() + PATIENCE;
        while page.tag_name().await.is_ok() {
            assert!(tokio::time::Instant::now() < until, "nothing comes after {}", self.path().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Presses Enter in a field, which sends its form.
    pub(crate) async fn enter(&self, css: &str) {
        let field = self.find(css).await;
        if self.has_scripts() {
            self.note(FORM, &field).await;
        }
        field.send_keys("\u{e007}").await.expect("the field takes a key");
    }

    /// Remembers the form that a script finds around an element, if there is one.
    async fn note(&self, script: &str, element: &Element) {
        let form = self.run(script, vec![serde_json::to_value(element).expect("an element")]).await;
        if !form.is_null() {
            self.sent.lock().await.insert(serde_json::from_value(form).expect("a form"));
        }
    }

    /// Every form that was sent so far.
    pub(crate) async fn sent(&self) -> BTreeSet<Sent> {
        self.sent.lock().await.clone()
    }

    /// Runs a script in the page and gives what it returns.
    pub(crate) async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script that calls the last of its arguments with what it found.
    pub(crate) async fn run_async(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute_async(script, arguments).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// What the server answers to the page itself at a path.
    pub(crate) async fn fetched(&self, path: &str) -> String {
        const FETCH: &str = "const [path, done] = arguments; fetch(path).then((answer) => answer.text()).then(done);";
        self.run_async(FETCH, vec![path.into()]).await.as_str().expect("a text").to_owned()
    }

    /// Sends a command of the Chrome DevTools Protocol.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.driver("goog/cdp/execute", &body).await
    }

    async fn driver(&self, command: &str, body: &Value) -> Value {
        let url = format!("{}/{command}", self.driven);
        let answer = self.http.post(url).json(body).send().await.expect("the driver answers");
        let mut answer: Value = answer.json().await.expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{command} {body}: {answer}");
        answer["value"].take()
    }

    /// Gives the window a size in CSS pixels.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        // The page hears of it before the second frame.
        let drawn = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));";
        self.run_async(drawn, Vec::new()).await;
    }

    /// A picture of the whole page as PNG, in base64.
    pub(crate) async fn picture(&self) -> String {
        let picture = json!({ "format": "png", "captureBeyondViewport": true, "optimizeForSpeed": true });
        let shot = self.devtools("Page.captureScreenshot", picture).await;
        shot["data"].as_str().expect("a picture").to_owned()
    }

    /// Fails when the console has an error, or the content security policy stopped anything.
    ///
    /// Chromium also notes every answer whose status is an error. For a page that is the truth about a form that was not
    /// taken or about what there is not, so those of pages may stand there; those of files may not.
    pub(crate) async fn assert_quiet(&self) {
        let log = self.driver("se/log", &json!({ "type": "browser" })).await;
        let entries = log.as_array().expect("a log").iter().filter(|entry| {
            let message = entry["message"].as_str().unwrap_or_default();
            let status = ["403", "404", "410", "412", "422", "429"]
                .iter()
                .any(|status| message.contains(&format!("responded with a status of {status}")));
            !(entry["source"] == "network" && status && !message.contains("/admin/assets/"))
        });
        let entries: Vec<_> = entries.collect();
        assert!(entries.is_empty(), "the console says {entries:#?}");
    }

    /// Says on standard error which page a failed test was on, and what it said.
    pub(crate) async fn tell_where_it_stands(&self) {
        use std::io::Write as _;
        let path = self.client.current_url().await.map(|url| url.to_string()).unwrap_or_default();
        let text = match self.client.find(Locator::Css("main")).await {
            Ok(main) => main.text().await.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        let _ = writeln!(std::io::stderr(), "the browser is on {path}, which says:\n{text}");
    }
}

/// Whether a click on an element ends in another page: links do, and buttons that send a form.
async fn leads_away(element: &Element) -> bool {
    let attribute = async |name: &str| element.attr(name).await.expect("an attribute");
    match element.tag_name().await.expect("an element").as_str() {
        "a" => attribute("href").await.is_some_and(|href| !href.starts_with('#')),
        "button" => attribute("type").await.is_none_or(|kind| kind == "submit"),
        _ => false,
    }
}

/// A text as XPath writes it.
fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}
