//! The forms that the templates have, and whether a form that was sent is one of them.

use std::collections::BTreeSet;
use std::path::Path;

/// A form that a browser has sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub(crate) struct Sent {
    pub(crate) method: String,
    /// The path that it was sent to.
    pub(crate) action: String,
    /// The names of its fields and buttons.
    pub(crate) names: Vec<String>,
}

/// A form as a template writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    template: String,
    method: String,
    /// The path, whose `{{ … }}` stand for anything without a slash.
    action: String,
    names: BTreeSet<String>,
}

impl Form {
    /// Every form of every template; a button with a `formaction` is one more.
    pub(crate) fn all() -> BTreeSet<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("templates");
        let mut forms = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let template = path.strip_prefix(&root).expect("inside").display().to_string();
                let text = std::fs::read_to_string(&path).expect("a text");
                forms.extend(Self::of(&template, &text));
            }
        }
        forms
    }

    fn of(template: &str, text: &str) -> Vec<Self> {
        let mut forms = Vec::new();
        for part in text.split("<form").skip(1) {
            let (form, _) = part.split_once("</form>").unwrap_or_else(|| panic!("a form of {template} does not end"));
            // A page that is read from top to bottom: the first is the form's own.
            let (head, _) = form.split_once(">\n").or_else(|| form.split_once('>')).expect("a tag");
            let method = values(head, "method").next().unwrap_or("get");
            if method == "dialog" {
                continue;
            }
            let names: BTreeSet<_> = values(form, "name").map(str::to_owned).collect();
            let action = values(form, "action").next().unwrap_or_else(|| panic!("{template}: {head} has no action"));
            for (method, action) in
                std::iter::once((method, action)).chain(values(form, "formaction").map(|action| ("post", action)))
            {
                // Only the pages of people name their own path.
                let action = action.replace("{{ self.path() }}", "/admin/people/{{ user.id }}");
                let (template, method) = (template.to_owned(), method.to_owned());
                forms.push(Self { template, method, action, names: names.clone() });
            }
        }
        forms
    }

    /// Whether this is the form that was sent.
    pub(crate) fn is(&self, sent: &Sent) -> bool {
        let (ours, theirs): (Vec<_>, Vec<_>) = (self.action.split('/').collect(), sent.action.split('/').collect());
        let same = |(ours, theirs): (&&str, &&str)| ours == theirs || (ours.starts_with("{{") && !theirs.is_empty());
        self.method == sent.method
            && ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(same)
            && sent.names.iter().all(|name| self.names.contains(name))
    }
}

/// The values of an attribute, in the order in which they stand.
fn values<'t>(html: &'t str, attribute: &str) -> impl Iterator<Item = &'t str> {
    let opening = format!(" {attribute}=\"");
    let starts: Vec<_> = html.match_indices(&opening).map(|(at, found)| at + found.len()).collect();
    starts.into_iter().map(|start| html[start..].split('"').next().unwrap_or_default())
}

#[test]
fn forms_are_read_from_templates() {
    let text = r#"<form method="post" action="/admin/a/{{ a.b }}/c" hx-post="/x"><input name="one"><button name="to" formaction="/admin/d"></form>
        <form class="filters" action="/admin/e"><select name="tenant"></select></form><form method="dialog"></form>"#;
    let forms = Form::of("t.html", text);
    let sent = |method: &str, action: &str, names: &[&str]| Sent {
        method: method.to_owned(),
        action: action.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(forms.len(), 3);
    assert!(forms[0].is(&sent("post", "/admin/a/1/c", &["one", "to"])));
    assert!(!forms[0].is(&sent("post", "/admin/a/1/2/c", &[])) && !forms[0].is(&sent("post", "/admin/a/1/c", &["x"])));
    assert!(forms[1].is(&sent("post", "/admin/d", &["one"])));
    assert!(forms[2].is(&sent("get", "/admin/e", &["tenant"])));
}
