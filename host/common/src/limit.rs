//! Limits: one table of them gives the settings their fields, defaults, ranges, checks and
//! documentation.

use std::time::Duration;

use bytesize::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::toml_text;

/// A row of a table of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The key in the settings.
    pub key: &'static str,
    /// The default, as a TOML value.
    pub default: &'static str,
    /// The valid values.
    pub range: &'static str,
    /// The meaning, in one sentence without a full stop.
    pub meaning: &'static str,
}

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

/// A type of limits.
pub trait LimitValue: Sized + PartialOrd {
    /// Parses a value of the settings, without quotes.
    fn parse(text: &str) -> Result<Self, String>;

    /// Returns the value as an error shows it.
    fn show(&self) -> String;

    /// Deserializes a field of the settings.
    fn field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl LimitValue for ByteSize {
    fn parse(text: &str) -> Result<Self, String> {
        toml_text::size(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl LimitValue for Duration {
    fn parse(text: &str) -> Result<Self, String> {
        toml_text::duration(text)
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }

    fn field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl LimitValue for u32 {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("'{text}' is not a number ({error})"))
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Returns a default of a table.
///
/// # Panics
/// Panics if it is not a value of its type; a test of each table makes sure that it is.
#[must_use]
pub fn default<T: LimitValue>(text: &str) -> T {
    T::parse(text.trim_matches('"')).expect("the default of a limit is a valid value")
}

/// Returns an error if a value is out of its range.
pub fn check<T: LimitValue>(
    key: &'static str,
    value: &T,
    [min, max]: [&str; 2],
    range: &'static str,
) -> Result<(), LimitError> {
    if (default::<T>(min)..=default(max)).contains(value) {
        return Ok(());
    }
    Err(LimitError { key, value: value.show(), range })
}

/// Defines a section of limits: a struct with a field for each row, its `Default`, and
/// `LIMITS`, the table of its rows, and `check`, which returns an error for a value out of
/// its range.
///
/// A row has the key, its type, the default as a TOML value, the range, and the meaning in
/// one sentence. Further comments of a row are for the documentation of the field. Fields
/// that are not limits follow under `with`, each with its own check.
#[macro_export]
macro_rules! limits {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[$more:meta])*
                $key:ident: $type:ty = $default:literal, $min:literal to $max:literal, $meaning:literal;
            )*
        }
        $(with {
            $(
                $(#[$other_meta:meta])*
                $other:ident: $other_type:ty, $check:expr;
            )*
        })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(
                #[doc = concat!($meaning, ".")]
                #[doc = ""]
                $(#[$more])*
                #[doc = ""]
                #[doc = concat!("Default: `", $default, "`; ", $min, " to ", $max, ".")]
                #[serde(deserialize_with = "::relayer_rest_common::limit::LimitValue::field")]
                pub $key: $type,
            )*
            $($(
                $(#[$other_meta])*
                pub $other: $other_type,
            )*)?
        }

        impl $name {
            /// The table of the limits.
            pub const LIMITS: &'static [$crate::limit::Limit] = &[
                $($crate::limit::Limit {
                    key: stringify!($key),
                    default: $default,
                    range: concat!($min, " to ", $max),
                    meaning: $meaning,
                }),*
            ];

            /// Checks that all values are in their ranges; the error names the first that
            /// is not.
            pub fn check(&self) -> Result<(), $crate::limit::LimitError> {
                $(
                    let range = concat!($min, " to ", $max);
                    $crate::limit::check(stringify!($key), &self.$key, [$min, $max], range)?;
                )*
                $($($check(&self.$other)?;)*)?
                Ok(())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $crate::limit::default($default),)*
                    $($($other: Default::default(),)*)?
                }
            }
        }
    };
}
