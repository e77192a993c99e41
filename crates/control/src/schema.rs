//! JSON Schema for the payload of events (built-in rules). Schemas are compiled once, when the
//! configuration is read; a shard only runs them.

use rules::PayloadCheck;

/// Mistakes of a payload that its sender is told, and characters of their text.
const MISTAKES_MAX: usize = 5;
const CHARS_MAX: usize = 1_000;
/// Of a longer payload only the first mistake is looked for: all are collected before the first of them is told, and a client may send
/// 50,000 in one event.
const LISTED_BYTES_MAX: usize = 4_096;

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
    /// The error names the first violations and their places.
    fn check(&self, payload: &str) -> Result<(), String> {
        let value = serde_json::from_str(payload).map_err(|error| format!("not JSON: {error}"))?;
        match self.validator.validate(&value) {
            Ok(()) => Ok(()),
            Err(first) if payload.len() > LISTED_BYTES_MAX => Err(bounded(&placed(&first))),
            Err(_) => Err(self.mistakes(&value)),
        }
    }
}

impl Schema {
    fn mistakes(&self, value: &serde_json::Value) -> String {
        let mut errors = self.validator.iter_errors(value);
        let named: Vec<String> = errors
            .by_ref()
            .take(MISTAKES_MAX)
            .map(|error| placed(&error))
            .collect();
        let text = bounded(&named.join("; "));
        match errors.next() {
            Some(_) => format!("{text}; and more"),
            None => text,
        }
    }
}

/// An error repeats the value that is wrong.
fn bounded(text: &str) -> String {
    text.chars().take(CHARS_MAX).collect()
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
    fn a_payload_s_second_mistake_was_told_after_the_first_was_mended() {
        let schema = compile(
            r#"{"type":"object","required":["to"],"properties":{"n":{"type":"integer"}},
                "additionalProperties":{"type":"string"}}"#,
        )
        .expect("schema");
        let both = schema.check(r#"{"n":"one"}"#).expect_err("two mistakes");
        assert_eq!(both.split("; ").count(), 2, "{both}");
        assert!(both.contains("/n: ") && both.contains("to"), "{both}");
        let many: Vec<String> = (0..9).map(|n| format!("\"a{n}\":{n}")).collect();
        let payload = format!("{{\"to\":1,{}}}", many.join(","));
        let told = schema.check(&payload).expect_err("ten mistakes");
        assert_eq!(told.split("; ").count(), MISTAKES_MAX + 1, "{told}");
        assert!(told.ends_with("; and more"), "{told}");
        let long = format!("{{\"to\":1,\"n\":\"{}\"}}", "x".repeat(5_000));
        let told = schema.check(&long).expect_err("a long one");
        assert_eq!(
            told.split("; ").count(),
            1,
            "of a long one the first is told"
        );
        assert!(told.chars().count() <= CHARS_MAX, "{}", told.len());
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
