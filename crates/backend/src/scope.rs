//! The namespaces that a backend serves: its workers say nothing to others.

/// The namespaces of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    Only(Vec<String>),
    /// All but those that the configuration gives to others.
    Except(Vec<String>),
}

impl Scope {
    pub fn has(&self, namespace: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == namespace);
        match self {
            Self::All => true,
            Self::Only(names) => named(names),
            Self::Except(names) => !named(names),
        }
    }
}
