//! JSON of answers that are written by the thousand: appended to one text, without a tree and without formatting.

use itoa::Integer;

/// The name of a member as it is written: with the comma before it, its quotes and the colon. It needs no escapes.
macro_rules! member {
    ($name:literal) => {
        $crate::refusal::json::Member(concat!(",\"", $name, "\":"))
    };
}
pub(super) use member;

/// See [`member!`].
#[derive(Clone, Copy)]
pub(crate) struct Member(pub(super) &'static str);

/// An object that is being written, member by member.
pub(crate) struct Object<'a> {
    text: &'a mut String,
    first: bool,
}

impl<'a> Object<'a> {
    /// Writes an object into `text`.
    pub(crate) fn write(text: &'a mut String, members: impl FnOnce(&mut Object<'_>)) {
        text.push('{');
        let mut object = Object { text, first: true };
        members(&mut object);
        object.text.push('}');
    }

    fn name(&mut self, Member(name): Member) {
        // The first has no comma before it.
        self.text.push_str(&name[usize::from(self.first)..]);
        self.first = false;
    }

    /// A member that is a text.
    pub(crate) fn text(&mut self, name: Member, value: &str) {
        self.text_of(name, |text| text.push(value));
    }

    /// A member that is a text of ours, which needs no escapes.
    pub(crate) fn own_text(&mut self, name: Member, value: &str) {
        self.text_of(name, |text| text.push_own(value));
    }

    /// A member that is a text of several pieces.
    pub(crate) fn text_of(&mut self, name: Member, pieces: impl FnOnce(&mut Text<'_>)) {
        self.name(name);
        Text::write(self.text, pieces);
    }

    /// A member that is a whole number.
    pub(crate) fn number(&mut self, name: Member, value: impl Integer) {
        self.name(name);
        self.text.push_str(itoa::Buffer::new().format(value));
    }

    /// A member that is true or false.
    pub(crate) fn boolean(&mut self, name: Member, value: bool) {
        self.raw(name, if value { "true" } else { "false" });
    }

    /// A member that is a list of one object.
    pub(crate) fn only_item(&mut self, name: Member, members: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        self.text.push('[');
        Object::write(self.text, members);
        self.text.push(']');
    }

    /// A member whose JSON is there already.
    pub(crate) fn raw(&mut self, name: Member, json: &str) {
        self.name(name);
        self.text.push_str(json);
    }

    /// A member that is an object.
    pub(crate) fn object(&mut self, name: Member, members: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        Object::write(self.text, members);
    }
}

/// A text that is being written, piece by piece.
pub(crate) struct Text<'a>(&'a mut String);

impl<'a> Text<'a> {
    pub(super) fn write(text: &'a mut String, pieces: impl FnOnce(&mut Text<'_>)) {
        text.push('"');
        pieces(&mut Text(text));
        text.push('"');
    }

    /// Appends a piece, whatever it holds.
    pub(crate) fn push(&mut self, piece: &str) {
        // Every byte is looked at, since that is done for many of them at a time.
        let is_plain =
            piece.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
        if is_plain {
            self.0.push_str(piece);
        } else {
            // Rare, so the library may do it, quotes and all.
            let escaped = serde_json::Value::from(piece).to_string();
            self.0.push_str(&escaped[1..escaped.len() - 1]);
        }
    }

    /// Appends a piece of ours, which needs no escapes.
    pub(crate) fn push_own(&mut self, piece: &str) {
        self.0.push_str(piece);
    }

    /// Appends a whole number in decimal digits.
    pub(crate) fn number(&mut self, value: impl Integer) {
        self.0.push_str(itoa::Buffer::new().format(value));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_written_is_read_back_whatever_the_texts_hold() {
        for text in ["", "plain", "\"quoted\"", "back\\slash", "line\nbreak", "\u{0}\u{7f}", "日本語 🦀", "\u{2028}"]
        {
            let mut written = String::new();
            Object::write(&mut written, |object| {
                object.text(member!("text"), text);
                object.number(member!("number"), u64::MAX);
                object.number(member!("negative"), -32_029);
                object.boolean(member!("boolean"), true);
                object.raw(member!("raw"), "[null]");
                object.object(member!("object"), |inner| inner.text(member!("text"), text));
                object.only_item(member!("list"), |inner| inner.text(member!("text"), text));
                object.text_of(member!("pieces"), |pieces| {
                    pieces.push(text);
                    pieces.push_own(" and ");
                    pieces.number(7);
                });
                object.object(member!("empty"), |_| {});
            });
            let expected = json!({ "text": text, "number": u64::MAX, "negative": -32_029, "boolean": true,
                "raw": [null], "object": { "text": text }, "list": [{ "text": text }], "pieces": format!("{text} and 7"), "empty": {} });
            assert_eq!(serde_json::from_str::<Value>(&written).expect("it is JSON"), expected, "{written}");
        }
    }
}
