//! A path that can also be disabled.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The text of [`Place::Disabled`].
pub(super) const NONE: &str = "none";

/// The place of something that the server can do without.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// The default place.
    #[default]
    Default,
    /// This path.
    At(PathBuf),
    /// Nowhere: `none`.
    Disabled,
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(if text == NONE { Self::Disabled } else { Self::At(text.into()) })
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Default => serializer.serialize_none(),
            Self::At(path) => path.serialize(serializer),
            Self::Disabled => serializer.serialize_str(NONE),
        }
    }
}
