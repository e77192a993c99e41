//! Topics, and what their records may ask for. Whoever may write to one has these rights.

use bridge::{Fault, Kind, Operator, Rights};

/// A topic with commands.
#[derive(Clone, Debug)]
pub struct Topic {
    name: String,
    rights: Rights,
}

impl Topic {
    /// Its records may use these operators in these namespaces, and no others.
    ///
    /// # Errors
    /// Kafka has no such name.
    pub fn new(
        name: &str,
        namespaces: Vec<String>,
        operators: Vec<Operator>,
    ) -> Result<Self, Fault> {
        let name = checked(name)?.to_owned();
        let rights = Rights::new(format!("the topic {name}"), namespaces, operators);
        Ok(Self { name, rights })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }
}

/// The name, if Kafka takes it.
pub(crate) fn checked(name: &str) -> Result<&str, Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=249).contains(&name.len()) && name.bytes().all(fits) && name != "." && name != ".." {
        return Ok(name);
    }
    let text = format!(
        "cannot use the topic {name:?}: a name has 1 to 249 letters, digits, dots, underscores and hyphens"
    );
    Err(Fault::new(Kind::Settings, text))
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn names_are_those_of_kafka() {
        assert!(checked("gateway.out-1_x").is_ok());
        for name in ["", ".", "..", "a b", "a\0", "ä", &"x".repeat(250)] {
            assert!(checked(name).is_err(), "{name:?}");
        }
    }
}
