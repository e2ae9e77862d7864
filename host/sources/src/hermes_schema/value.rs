//! Values that can be written in more than one way.

use std::fmt::{self, Formatter};
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::time::Duration;

use relayer_rest_common::toml_text;
use relayer_rest_common::url_secrets::{has_secret_after_host, remove_secrets};
use relayer_rest_state::Ratio;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use url::Url;

/// A normalized URL without credentials.
pub(super) struct UrlText(pub(super) String);

/// A finite number, written as a float or as an integer.
#[derive(Clone, Copy)]
pub(super) struct Finite(pub(super) f64);

/// A duration as `14days`, `336hours` or `1h 30m`, of up to 584 years.
#[derive(Clone, Copy)]
pub(super) struct DurationText(pub(super) Duration);

/// A fraction of at most 1: a text `2/3`, or a table of texts or numbers.
#[derive(Clone, Copy)]
pub(super) struct RatioText(pub(super) Ratio);

/// The height of a block, as a text or a number.
#[derive(Clone, Copy)]
pub(super) struct HeightText(pub(super) NonZeroU64);

impl<'de> Deserialize<'de> for HeightText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeightVisitor)
    }
}

struct HeightVisitor;

impl Visitor<'_> for HeightVisitor {
    type Value = HeightText;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a height of 1 or more, such as '5200791'")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HeightText, E> {
        let height = text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))?;
        Ok(HeightText(height))
    }

    fn visit_u64<E: Error>(self, height: u64) -> Result<HeightText, E> {
        let invalid = || E::invalid_value(Unexpected::Unsigned(height), &self);
        NonZeroU64::new(height).map(HeightText).ok_or_else(invalid)
    }

    fn visit_i64<E: Error>(self, height: i64) -> Result<HeightText, E> {
        match u64::try_from(height) {
            Ok(height) => self.visit_u64(height),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(height), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for UrlText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(UrlVisitor)
    }
}

/// The schemes of a node's endpoints.
const SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "tcp"];

struct UrlVisitor;

impl Visitor<'_> for UrlVisitor {
    type Value = UrlText;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a URL, such as 'http://127.0.0.1:26657'")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<UrlText, E> {
        // The text may hold a password: a message does not repeat it.
        let mut url = Url::parse(text).map_err(|error| {
            E::custom(format_args!(
                "not a URL ({error}); expected one such as 'http://127.0.0.1:26657'"
            ))
        })?;
        if !SCHEMES.contains(&url.scheme()) || !url.has_host() {
            return Err(E::custom(format_args!(
                "not a URL of a node; expected a scheme ({}) and a host, such as 'http://127.0.0.1:26657'",
                SCHEMES.join(", ")
            )));
        }
        // An unescaped `/` or `#` in a password would end the host too early.
        if has_secret_after_host(&url) {
            return Err(E::custom(
                "not a URL of a node: there is an at sign after its host; \
                 write / ? # and at signs of a password as %2F %3F %23 and %40",
            ));
        }
        if !remove_secrets(&mut url) {
            return Err(E::custom("a URL of this scheme has no credentials"));
        }
        Ok(UrlText(url.into()))
    }
}

impl<'de> Deserialize<'de> for Finite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number.is_finite() {
            Ok(Self(number))
        } else {
            Err(D::Error::invalid_value(Unexpected::Float(number), &"a finite number"))
        }
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationText;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a duration, such as '10s', '336hours' or '14days'")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DurationText, E> {
        let duration = toml_text::duration(text).map_err(E::custom)?;
        // Modules receive durations in nanoseconds.
        if u64::try_from(duration.as_nanos()).is_err() {
            return Err(E::custom(format_args!("'{text}' is longer than 584 years")));
        }
        Ok(DurationText(duration))
    }
}

impl<'de> Deserialize<'de> for RatioText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RatioVisitor)
    }
}

struct RatioVisitor;

impl<'de> Visitor<'de> for RatioVisitor {
    type Value = RatioText;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a fraction, such as '2/3' or { numerator = '2', denominator = '3' }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RatioText, E> {
        let invalid = || E::invalid_value(Unexpected::Str(text), &self);
        let (numerator, denominator) = text.split_once('/').ok_or_else(invalid)?;
        let part = |part: &str| part.trim().parse().map_err(|_| invalid());
        ratio(part(numerator)?, part(denominator)?)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RatioText, A::Error> {
        #[derive(Deserialize)]
        struct Table {
            numerator: Part,
            denominator: Part,
        }
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        ratio(table.numerator.0, table.denominator.0)
    }
}

fn ratio<E: Error>(numerator: u64, denominator: u64) -> Result<RatioText, E> {
    match Ratio::new(numerator, denominator) {
        Some(ratio) if numerator <= denominator => Ok(RatioText(ratio)),
        Some(_) => Err(E::custom(format_args!("{numerator}/{denominator} is greater than 1"))),
        None => Err(E::custom("the denominator is 0")),
    }
}

/// A part of a fraction: a number, or a text of digits.
struct Part(u64);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl Visitor<'_> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number or a string of digits")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Part, E> {
        u64::try_from(number)
            .map(Part)
            .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Part, E> {
        Ok(Part(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Part, E> {
        text.parse().map(Part).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Sequence numbers: one, or a text with the first and the last: `"3-7"`.
pub(super) struct SequencesText(pub(super) RangeInclusive<u64>);

impl<'de> Deserialize<'de> for SequencesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SequencesVisitor)
    }
}

struct SequencesVisitor;

impl Visitor<'_> for SequencesVisitor {
    type Value = SequencesText;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence number, or a range of them such as \"3-7\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<SequencesText, E> {
        let number = u64::try_from(number)
            .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
        self.visit_u64(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<SequencesText, E> {
        Ok(SequencesText(number..=number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SequencesText, E> {
        let part = |part: &str| part.trim().parse::<u64>().ok();
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (part(first), part(last)) {
            (Some(first), Some(last)) if first <= last => Ok(SequencesText(first..=last)),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}
