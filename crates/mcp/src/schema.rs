//! The JSON Schema of a tool's arguments and of its output.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// Puts the input schema of a tool together: one property per argument, or the properties of whole structs.
///
/// The result is JSON Schema 2020-12 with the properties in the order in which they were added and shared types under
/// `$defs`.
#[derive(Debug)]
pub struct InputSchema {
    generator: SchemaGenerator,
    properties: JsonObject,
    required: Vec<Value>,
    /// What else whole structs say about the object, such as `additionalProperties` or `oneOf`.
    keywords: JsonObject,
    /// Keywords that two structs state differently.
    all_of: Vec<Value>,
}

impl InputSchema {
    /// A schema without any argument yet.
    pub fn new() -> Self {
        Self {
            generator: SchemaSettings::draft2020_12().into_generator(),
            properties: JsonObject::new(),
            required: Vec::new(),
            keywords: JsonObject::new(),
            all_of: Vec::new(),
        }
    }

    /// Adds one argument.
    pub fn property<T: JsonSchema>(&mut self, name: &str, description: Option<&str>, required: bool) {
        let mut schema = self.generator.subschema_for::<T>();
        if let Some(description) = description {
            schema.ensure_object().insert("description".into(), description.into());
        }
        self.properties.entry(name).or_insert(schema.to_value());
        if required {
            self.require(name.into());
        }
    }

    /// Adds everything that `T`, a struct, says about the arguments object.
    pub fn object<T: JsonSchema>(&mut self) {
        let schema = T::json_schema(&mut self.generator);
        // `true` (anything goes) and `false` have no keywords to merge; an object is all that a call can carry anyway.
        let Value::Object(mut object) = schema.to_value() else { return };
        // The name and the doc comment of a wrapper type are noise to a model (rmcp drops them too).
        object.remove("title");
        object.remove("description");
        if let Some(Value::Object(properties)) = object.remove("properties") {
            for (name, property) in properties {
                self.properties.entry(name).or_insert(property);
            }
        }
        if let Some(Value::Array(required)) = object.remove("required") {
            required.into_iter().for_each(|name| self.require(name));
        }
        if object.get("type").is_some_and(allows_object) {
            object.remove("type");
        }
        for (keyword, value) in object {
            match self.keywords.get(&keyword) {
                Some(stated) if *stated == value => {}
                Some(_) => self.all_of.push(json!({ keyword: value })),
                None => drop(self.keywords.insert(keyword, value)),
            }
        }
    }

    fn require(&mut self, name: Value) {
        if !self.required.contains(&name) {
            self.required.push(name);
        }
    }

    /// The finished schema. A tool without arguments has the empty object's, as rmcp writes it.
    pub fn finish(mut self) -> Arc<JsonObject> {
        let mut root = JsonObject::new();
        let empty = self.properties.is_empty() && self.keywords.is_empty();
        if !empty && let Some(meta_schema) = &self.generator.settings().meta_schema {
            root.insert("$schema".into(), meta_schema.as_ref().into());
        }
        root.insert("type".into(), "object".into());
        root.insert("properties".into(), Value::Object(self.properties));
        if !self.required.is_empty() {
            root.insert("required".into(), Value::Array(self.required));
        }
        // Last, so that a root type other than an object stays visible and the registry can refuse it.
        root.extend(self.keywords);
        if !self.all_of.is_empty() {
            match root.entry("allOf").or_insert_with(|| json!([])) {
                Value::Array(all_of) => all_of.extend(self.all_of),
                stated => *stated = Value::Array(self.all_of),
            }
        }
        let definitions = self.generator.take_definitions(false);
        if !definitions.is_empty() {
            root.insert("$defs".into(), Value::Object(definitions));
        }
        transformed(&mut self.generator, root)
    }
}

impl Default for InputSchema {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a schema's `type` lets an object pass.
fn allows_object(root: &Value) -> bool {
    match root {
        Value::String(one) => one == "object",
        Value::Array(several) => several.iter().any(|one| one == "object"),
        _ => false,
    }
}

/// The schema of what `T` serialises to, for `structuredContent`.
///
/// Title and description of the type are dropped, as rmcp does. The root need not be an object (SEP-2106); rmcp leaves
/// such a schema out for peers from before 2026-07-28.
pub(crate) fn output_schema_of<T: JsonSchema>() -> Arc<JsonObject> {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    let object = schema.ensure_object();
    object.remove("title");
    object.remove("description");
    Arc::new(std::mem::take(object))
}

/// Applies the transforms of the generator's settings to a root that was put together by hand.
fn transformed(generator: &mut SchemaGenerator, root: JsonObject) -> Arc<JsonObject> {
    let mut schema = Schema::from(root);
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    Arc::new(std::mem::take(schema.ensure_object()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Page {
        after: Option<String>,
        size: u32,
    }

    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Strict {
        size: u8,
        shape: Shape,
    }

    /// Has no `type` at its root, but only objects.
    #[derive(JsonSchema)]
    #[schemars(tag = "kind")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Shape {
        Circle { radius: f64 },
        Group { of: Vec<Shape> },
    }

    fn finished(schema: InputSchema) -> Value {
        Value::Object(schema.finish().as_ref().clone())
    }

    #[test]
    fn arguments_and_structs_are_merged_and_the_first_to_name_a_property_describes_it() {
        let mut schema = InputSchema::new();
        schema.property::<String>("size", Some("Small or large."), true);
        schema.object::<Page>();
        schema.object::<Strict>();
        let schema = finished(schema);
        let properties = schema["properties"].as_object().expect("an object");
        assert_eq!(properties.keys().collect::<Vec<_>>(), ["size", "after", "shape"]);
        assert_eq!(properties["size"], json!({ "type": "string", "description": "Small or large." }));
        assert_eq!(schema["required"], json!(["size", "shape"]));
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["$defs"]["Shape"]["oneOf"][1]["properties"]["of"]["items"]["$ref"], "#/$defs/Shape");
    }

    #[test]
    fn an_enum_of_objects_is_an_object() {
        let mut schema = InputSchema::new();
        schema.object::<Shape>();
        let schema = finished(schema);
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["oneOf"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn keywords_that_two_structs_state_differently_both_hold() {
        let mut schema = InputSchema::new();
        schema.object::<BTreeMap<String, u8>>();
        schema.object::<BTreeMap<String, bool>>();
        let schema = finished(schema);
        assert_eq!(schema["additionalProperties"]["type"], "integer");
        assert_eq!(schema["allOf"], json!([{ "additionalProperties": { "type": "boolean" } }]));
    }

    #[test]
    fn a_root_that_is_no_object_stays_visible() {
        let mut schema = InputSchema::new();
        schema.object::<Vec<u8>>();
        assert_eq!(finished(schema)["type"], "array");
        let mut schema = InputSchema::new();
        schema.object::<Option<Page>>();
        assert_eq!(finished(schema)["type"], "object");
    }
}
