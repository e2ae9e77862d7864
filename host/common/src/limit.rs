//! Limits: one table of them gives the settings their fields, defaults, ranges, checks and
//! documentation.

use std::time::Duration;

use bytesize::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

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

    /// Serializes a field of the settings, without loss.
    fn write_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
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

    fn write_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&toml_text::size_text(*self))
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

    fn write_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&humantime::format_duration(*self).to_string())
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

    fn write_field<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self)
    }
}

/// Returns the key of a field: its name, in kebab case. The length is that of the name.
///
/// # Panics
/// Panics at compile time if the length is not that of the name.
#[must_use]
pub const fn kebab_case<const LENGTH: usize>(field: &str) -> [u8; LENGTH] {
    let mut key = [0; LENGTH];
    let field = field.as_bytes();
    assert!(field.len() == LENGTH);
    let mut place = 0;
    while place < LENGTH {
        key[place] = if field[place] == b'_' { b'-' } else { field[place] };
        place += 1;
    }
    key
}

/// Returns a key of [`kebab_case`] as a text.
///
/// # Panics
/// Panics at compile time if it is not UTF-8.
#[must_use]
pub const fn key_text(key: &[u8]) -> &str {
    match str::from_utf8(key) {
        Ok(key) => key,
        Err(_) => panic!("the names of fields are UTF-8"),
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

/// Accepts any value, as the check of a field that is not a limit.
///
/// # Errors
/// Returns none.
#[allow(clippy::unnecessary_wraps, reason = "it is a check of the table")]
pub fn any<T>(_: &T) -> Result<(), LimitError> {
    Ok(())
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
        #[derive(Debug, Clone, PartialEq, Eq, ::serde::Deserialize, ::serde::Serialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $(
                #[doc = concat!($meaning, ".")]
                #[doc = ""]
                $(#[$more])*
                #[doc = ""]
                #[doc = concat!("Default: `", $default, "`; ", $min, " to ", $max, ".")]
                #[serde(deserialize_with = "::relayer_rest_common::limit::LimitValue::field")]
                #[serde(serialize_with = "::relayer_rest_common::limit::LimitValue::write_field")]
                pub $key: $type,
            )*
            $($(
                $(#[$other_meta])*
                pub $other: $other_type,
            )*)?
        }

        #[allow(non_upper_case_globals, reason = "they have the names of the fields")]
        impl $name {
            $(
                const $key: &'static str = {
                    const KEY: [u8; stringify!($key).len()] =
                        $crate::limit::kebab_case(stringify!($key));
                    $crate::limit::key_text(&KEY)
                };
            )*

            /// The table of the limits.
            pub const LIMITS: &'static [$crate::limit::Limit] = &[
                $($crate::limit::Limit {
                    key: Self::$key,
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
                    $crate::limit::check(Self::$key, &self.$key, [$min, $max], range)?;
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
