//! A limit that is out of its range.

/// A limit that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {value} is out of range; expected {range}")]
pub struct LimitError {
    /// The limit's key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The valid values.
    pub range: &'static str,
}
