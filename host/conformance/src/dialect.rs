//! The dialects of the API, as spoken by different versions of the relayer.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use relayer_rest_modules::{DEFAULT_MODULE, MODULE_1_13};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A dialect that a module's responses must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The API as specified, since relayer 0.7.
    #[default]
    V0_7,
    /// The API of current relayers, 1.10 to 1.13.
    V1_13,
    /// Any valid HTTP response: JSON if it is declared as JSON, and not a failure.
    Any,
}

/// An error for an unknown dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; expected 0.7, 1.13 or any")]
pub struct DialectError(String);

impl Dialect {
    /// Returns the bundled component for this dialect.
    #[must_use]
    pub fn component(self) -> &'static [u8] {
        match self {
            Self::V0_7 | Self::Any => DEFAULT_MODULE,
            Self::V1_13 => MODULE_1_13,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V0_7 => "0.7",
            Self::V1_13 => "1.13",
            Self::Any => "any",
        }
    }
}

impl FromStr for Dialect {
    type Err = DialectError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::V0_7, Self::V1_13, Self::Any]
            .into_iter()
            .find(|dialect| dialect.name() == name)
            .ok_or_else(|| DialectError(name.to_owned()))
    }
}

impl Display for Dialect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Dialect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
