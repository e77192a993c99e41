//! Why a record is not believed.

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The field, with its value if that tells something.
    pub field: String,
    /// What it should be.
    pub wanted: &'static str,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: it must be {}", self.field, self.wanted)
    }
}

impl std::error::Error for Unfit {}

pub(crate) fn need(
    holds: bool,
    field: impl Into<String>,
    wanted: &'static str,
) -> Result<(), Unfit> {
    let field = field.into();
    holds.then_some(()).ok_or(Unfit { field, wanted })
}
