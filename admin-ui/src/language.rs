//! The texts of the panel, in every language it speaks.
//!
//! A catalogue is one file of `key = text` lines in `locales/`. A text may hold `{0}`, `{1}`, … for what is put in.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::LazyLock;

use http::{HeaderMap, header};

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Language {
    #[default]
    English,
    Japanese,
}

type Catalogue = HashMap<&'static str, &'static str>;

static ENGLISH: LazyLock<Catalogue> = LazyLock::new(|| read(include_str!("../locales/en.txt")));
static JAPANESE: LazyLock<Catalogue> = LazyLock::new(|| read(include_str!("../locales/ja.txt")));

impl Language {
    pub(crate) const ALL: [Self; 2] = [Self::English, Self::Japanese];

    /// The tag of BCP 47.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Japanese => "ja",
        }
    }

    /// What the language calls itself.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Japanese => "日本語",
        }
    }

    pub(crate) fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.tag() == tag)
    }

    /// The first language of `Accept-Language` that there is. Browsers write their list in order of preference.
    pub(crate) fn preferred(headers: &HeaderMap) -> Self {
        let listed = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let tags = listed.split(',').map(|item| item.split([';', '-']).next().unwrap_or_default().trim());
        tags.filter_map(Self::from_tag).next().unwrap_or_default()
    }

    fn catalogue(self) -> &'static Catalogue {
        match self {
            Self::English => &ENGLISH,
            Self::Japanese => &JAPANESE,
        }
    }

    /// The text of a key. A key that is nowhere is shown itself; a test finds those.
    pub(crate) fn text(self, key: &'static str) -> &'static str {
        let text = self.catalogue().get(key).or_else(|| ENGLISH.get(key));
        text.copied().unwrap_or(key)
    }

    /// The text of a key that was put together from a word of the program, such as a role; `None` for an unknown one.
    pub(crate) fn find(self, key: &str) -> Option<&'static str> {
        self.catalogue().get(key).copied()
    }

    /// The text of a key with values put in.
    pub(crate) fn fill(self, key: &'static str, values: &[&dyn Display]) -> String {
        Filled { text: self.text(key), values }.to_string()
    }
}

struct Filled<'a> {
    text: &'static str,
    values: &'a [&'a dyn Display],
}

impl Display for Filled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        while let Some((before, after)) = rest.split_once('{') {
            f.write_str(before)?;
            let place = after.split_once('}').and_then(|(place, after)| Some((place.parse::<usize>().ok()?, after)));
            match place {
                Some((place, after)) => {
                    if let Some(value) = self.values.get(place) {
                        value.fmt(f)?;
                    }
                    rest = after;
                }
                None => {
                    f.write_str("{")?;
                    rest = after;
                }
            }
        }
        f.write_str(rest)
    }
}

fn read(text: &'static str) -> Catalogue {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(" = ")).map(|(key, text)| (key.trim(), text.trim())).collect()
}

#[cfg(test)]
mod tests;
