//! JSON Schema for the payload of events (built-in rules). Schemas are compiled once, when the
//! configuration is read; a shard only runs them.

use rules::PayloadCheck;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: jsonschema::Validator,
}

/// Compiles a schema, given as JSON text. References to other documents are not followed: a check
/// on the data plane must not depend on the network.
pub fn compile(text: &str) -> Result<Schema, String> {
    let schema = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match jsonschema::validator_for(&schema) {
        Ok(validator) => Ok(Schema { validator }),
        Err(error) => Err(placed(&error)),
    }
}

/// The violation, behind its place in the document.
fn placed(error: &jsonschema::ValidationError<'_>) -> String {
    match error.instance_path().to_string().as_str() {
        "" => error.to_string(),
        place => format!("{place}: {error}"),
    }
}

impl PayloadCheck for Schema {
    /// The error names the first violation and its place.
    fn check(&self, payload: &str) -> Result<(), String> {
        let value = serde_json::from_str(payload).map_err(|error| format!("not JSON: {error}"))?;
        match self.validator.validate(&value) {
            Ok(()) => Ok(()),
            Err(error) => Err(placed(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_checked_and_the_place_is_named() {
        let schema = compile(
            r#"{"type":"object","required":["content"],
                "properties":{"content":{"type":"string","maxLength":3}}}"#,
        )
        .expect("schema");
        assert_eq!(schema.check(r#"{"content":"abc"}"#), Ok(()));
        let error = schema.check(r#"{"content":"abcd"}"#).expect_err("too long");
        assert!(error.starts_with("/content: "), "{error}");
        assert!(schema.check("{}").expect_err("missing").contains("content"));
        assert!(
            schema
                .check("{")
                .expect_err("broken")
                .starts_with("not JSON")
        );
    }

    #[test]
    fn wrong_schemas_are_refused_when_compiled() {
        assert!(
            compile("{")
                .expect_err("broken")
                .starts_with("it is not JSON")
        );
        assert!(compile(r#"{"type":"colour"}"#).is_err());
        assert!(compile(r#"{"$ref":"https://example.org/other.json"}"#).is_err());
    }
}
