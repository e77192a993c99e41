//! What those who write commands may ask for. Whoever may write to a topic or a subject has its rights.

use crate::headers::Operator;

/// Of one topic or subject.
#[derive(Clone, Debug)]
pub struct Rights {
    holder: String,
    namespaces: Vec<String>,
    operators: Vec<Operator>,
}

impl Rights {
    /// These operators in these namespaces, and no others. `holder` is a name for people, such as "the topic in".
    pub fn new(
        holder: impl Into<String>,
        namespaces: Vec<String>,
        operators: Vec<Operator>,
    ) -> Self {
        Self {
            holder: holder.into(),
            namespaces,
            operators,
        }
    }

    pub(crate) fn holder(&self) -> &str {
        &self.holder
    }

    pub(crate) fn allows_namespace(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|allowed| allowed == namespace)
    }

    pub(crate) fn allows(&self, operator: Operator) -> bool {
        self.operators.contains(&operator)
    }
}
