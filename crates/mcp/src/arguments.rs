//! Taking a tool's arguments out of the JSON object that the caller sent.

use std::fmt::{Display, Write as _};

use jsonschema::paths::LocationSegment;
use rmcp::model::JsonObject;
use serde::de::value::Error as MissingError;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_path_to_error::Segment;

use crate::error::ToolError;

/// The longest explanation of one mistake, in bytes: it may quote what the caller sent.
const EXPLANATION_BYTES: usize = 300;

/// Takes the argument `name`. One that is missing is what the type makes of a missing field: `None` for an `Option`, an
/// error for almost everything else.
///
/// # Errors
///
/// A [`ToolError::invalid_input`] that names the field by its path, such as
/// ``invalid arguments: filters[2].from: invalid type: string "x", expected u64``.
pub(crate) fn argument<T: DeserializeOwned>(arguments: &JsonObject, name: &str) -> Result<T, ToolError> {
    let Some(value) = arguments.get(name) else {
        return T::deserialize(Missing)
            .map_err(|_missing| invalid_arguments(&format!("{name}: required, but missing")));
    };
    deserialize(value, Some(name))
}

/// Whether a call without this argument is refused.
pub(crate) fn is_required<T: DeserializeOwned>() -> bool {
    T::deserialize(Missing).is_err()
}

/// Takes the whole arguments object as one value.
pub(crate) fn all_arguments<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, ToolError> {
    deserialize(arguments, None)
}

/// Reads a value that stands at `root`, if that is not the arguments object itself.
fn deserialize<'de, T, D>(value: D, root: Option<&str>) -> Result<T, ToolError>
where
    T: DeserializeOwned,
    D: Deserializer<'de> + Copy,
    D::Error: Display,
{
    // Arguments that fit, as nearly all do, need nobody to keep track of the place.
    T::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let mut path = root.map(ArgumentPath::of).unwrap_or_default();
            path.extend(error.path());
            invalid_arguments(&path.explain(error.inner()))
        })
    })
}

/// The answer to arguments that do not fit. The explanation holds nothing but what the caller sent and what the schema
/// says.
pub(crate) fn invalid_arguments(explanation: &str) -> ToolError {
    ToolError::invalid_input(format!("invalid arguments: {explanation}"))
}

/// Where in the arguments something is wrong, as a programmer would write it: `filters[2].from`.
#[derive(Default)]
pub(crate) struct ArgumentPath(String);

impl ArgumentPath {
    fn of(name: &str) -> Self {
        Self(name.to_owned())
    }

    fn field(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(name);
    }

    fn index(&mut self, index: usize) {
        write!(self.0, "[{index}]").expect("writing to a String does not fail");
    }

    fn extend(&mut self, path: &serde_path_to_error::Path) {
        for segment in path {
            match segment {
                Segment::Seq { index } => self.index(*index),
                Segment::Map { key } => self.field(key),
                // A variant is no place in the JSON, and an unknown segment names none.
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
    }

    /// One mistake at this place, cut to a length that fits an answer.
    pub(crate) fn explain(&self, mistake: &impl Display) -> String {
        let mut text = if self.0.is_empty() { mistake.to_string() } else { format!("{}: {mistake}", self.0) };
        if text.len() > EXPLANATION_BYTES {
            text.truncate(text.floor_char_boundary(EXPLANATION_BYTES));
            text.push('…');
        }
        text
    }
}

impl<'a> FromIterator<LocationSegment<'a>> for ArgumentPath {
    fn from_iter<I: IntoIterator<Item = LocationSegment<'a>>>(segments: I) -> Self {
        let mut path = Self::default();
        for segment in segments {
            match segment {
                LocationSegment::Property(name) => path.field(&name),
                LocationSegment::Index(index) => path.index(index),
            }
        }
        path
    }
}

/// A value that is not there, for a type to decide what that means; serde's own derive treats missing fields alike.
struct Missing;

impl<'de> Deserializer<'de> for Missing {
    type Error = MissingError;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(MissingError::custom("missing"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
