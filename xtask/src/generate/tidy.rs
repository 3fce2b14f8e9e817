//! What `schemars` and `k8s-openapi` write into a schema that does not belong into a CRD.

use serde_json::{Map, Value, json};

/// A quantity, as the API server itself reads it.
const QUANTITY: &str =
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$";

/// Fields of a schema whose own fields are names chosen by us and not words of the schema language.
const NAMED: &[&str] = &["properties", "patternProperties", "definitions"];
/// Fields of a schema that hold user data and are left as they are.
const DATA: &[&str] = &["default", "enum", "example"];

/// Tidies a whole CRD.
pub fn tidy(crd: &mut Value) {
    let Some(Value::Array(versions)) = crd.pointer_mut("/spec/versions") else {
        return;
    };
    for version in versions {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            each_schema(schema, &mut |schema| {
                drop_nullable(schema);
                make_bounds_whole(schema);
                name_known_formats(schema);
                describe_quantity(schema);
            });
        }
        // Status is written as a whole by the operator: a default there would be a word it never said.
        if let Some(status) = version.pointer_mut("/schema/openAPIV3Schema/properties/status") {
            each_schema(status, &mut |schema| drop(schema.remove("default")));
        }
    }
}

/// Calls `change` on a schema and every schema inside it.
fn each_schema(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(schema) => {
            change(schema);
            for (word, inner) in schema.iter_mut() {
                if NAMED.contains(&word.as_str()) {
                    if let Value::Object(named) = inner {
                        named.values_mut().for_each(|schema| each_schema(schema, change));
                    }
                } else if !DATA.contains(&word.as_str()) {
                    each_schema(inner, change);
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| each_schema(schema, change)),
        _ => {}
    }
}

/// A missing field is missing. Without the word the API server drops an explicit null, which is what people mean by it.
fn drop_nullable(schema: &mut Map<String, Value>) {
    schema.remove("nullable");
}

/// Bounds are kept as floating point by `k8s-openapi`: an integer's bounds are integers.
fn make_bounds_whole(schema: &mut Map<String, Value>) {
    for bound in ["minimum", "maximum", "multipleOf"] {
        let whole = schema
            .get(bound)
            .and_then(Value::as_f64)
            .filter(|number| number.fract() == 0.0);
        if let Some(number) = whole.and_then(|number| format!("{number:.0}").parse::<i64>().ok()) {
            schema.insert(bound.to_owned(), number.into());
        }
    }
}

/// The API server warns of formats it does not know; it knows signed integers only.
fn name_known_formats(schema: &mut Map<String, Value>) {
    let known = match schema.get("format").and_then(Value::as_str) {
        Some("uint8" | "uint16" | "int8" | "int16") => "int32",
        Some("uint32" | "uint64" | "uint" | "int") => "int64",
        _ => return,
    };
    schema.insert("format".to_owned(), known.into());
}

/// A quantity comes with a page of documentation and without the pattern that would refuse a wrong one.
fn describe_quantity(schema: &mut Map<String, Value>) {
    let described = schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if described.starts_with("Quantity is a fixed-point representation") {
        schema.insert(
            "description".to_owned(),
            "A quantity, such as `500m` or `64Mi`.".into(),
        );
        schema.insert(
            "anyOf".to_owned(),
            json!([{ "type": "integer" }, { "type": "string" }]),
        );
        schema.insert("pattern".to_owned(), QUANTITY.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(schema: &Value) -> Value {
        let mut crd = json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": schema } }] } });
        tidy(&mut crd);
        crd.pointer("/spec/versions/0/schema/openAPIV3Schema")
            .cloned()
            .unwrap()
    }

    #[test]
    fn integers_have_whole_bounds_and_formats_the_server_knows() {
        let schema = json!({ "type": "integer", "format": "uint32", "minimum": 0.0, "maximum": 500.0 });
        let expected = json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 500 });
        assert_eq!(
            tidied(&json!({ "properties": { "a": schema } })),
            json!({ "properties": { "a": expected } })
        );
        let half = json!({ "type": "number", "minimum": 0.5 });
        assert_eq!(tidied(&half), half);
    }

    #[test]
    fn nothing_is_nullable() {
        let schema = json!({ "properties": { "a": { "items": { "nullable": true, "type": "string" } } } });
        assert_eq!(
            tidied(&schema),
            json!({ "properties": { "a": { "items": { "type": "string" } } } })
        );
    }

    #[test]
    fn fields_named_like_words_of_the_language_and_defaults_are_kept() {
        let schema = json!({ "properties": { "spec": { "properties": {
            "nullable": { "type": "boolean", "default": true },
            "format": { "type": "object", "default": { "nullable": true, "format": "uint8" } },
        } } } });
        assert_eq!(tidied(&schema), schema);
    }

    #[test]
    fn status_has_no_defaults() {
        let schema = json!({ "properties": { "status": { "properties": { "members": { "default": "", "type": "string" } } } } });
        let expected =
            json!({ "properties": { "status": { "properties": { "members": { "type": "string" } } } } });
        assert_eq!(tidied(&schema), expected);
    }

    #[test]
    fn a_quantity_is_short_and_checked() {
        let schema = json!({ "additionalProperties": {
            "description": "Quantity is a fixed-point representation of a number. And so on.",
            "x-kubernetes-int-or-string": true,
        } });
        let quantity = tidied(&schema).pointer("/additionalProperties").cloned().unwrap();
        assert_eq!(quantity["pattern"], QUANTITY);
        assert!(quantity["description"].as_str().unwrap().len() < 60);
    }
}
