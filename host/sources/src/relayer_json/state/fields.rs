//! The plain fields of an object. Lists and objects in it are skipped.

use std::borrow::Cow;
use std::fmt::{self, Formatter};

use relayer_rest_state::{Name, Value};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::super::bounds::{MAX_FIELDS, MAX_NAME, skip_rest};
use super::super::texts::Text;

/// The fields that have not been read yet, in their order.
pub(super) struct Fields<'de> {
    fields: Vec<(Text<'de>, Field<'de>)>,
    has_more: bool,
}

enum Field<'de> {
    Plain(Value),
    Text(Cow<'de, str>),
    /// A list or an object. Neither it nor a text that is too long is shown.
    Nested,
    TooLong,
}

/// A problem with a required field.
pub(super) enum FieldError {
    Missing(&'static str),
    NotText(&'static str),
    TooLong(&'static str),
}

impl<'de> Fields<'de> {
    fn take(&mut self, name: &str) -> Option<Field<'de>> {
        let place = self.fields.iter().position(|(other, _)| &**other == name)?;
        Some(self.fields.remove(place).1)
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<Cow<'de, str>, FieldError> {
        match self.take(name) {
            Some(Field::Text(text)) => Ok(text),
            Some(Field::TooLong) => Err(FieldError::TooLong(name)),
            Some(_) => Err(FieldError::NotText(name)),
            None => Err(FieldError::Missing(name)),
        }
    }

    pub(super) fn name(&mut self, name: &'static str) -> Result<Name, FieldError> {
        self.text(name).map(Name::from)
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Field::Plain(Value::Boolean(value)) => Some(value),
            _ => None,
        }
    }

    /// Removes and returns all plain fields.
    pub(super) fn take_plain(&mut self) -> impl Iterator<Item = (Text<'de>, Value)> + use<'de> {
        let is_plain = |field: &Field<'_>| matches!(field, Field::Plain(_) | Field::Text(_));
        let (plain, others) =
            std::mem::take(&mut self.fields).into_iter().partition(|(_, field)| is_plain(field));
        self.fields = others;
        let plain: Vec<_> = plain;
        plain.into_iter().filter_map(|(name, field)| match field {
            Field::Plain(value) => Some((name, value)),
            Field::Text(text) => Some((name, Value::Text(text.into()))),
            Field::Nested | Field::TooLong => None,
        })
    }

    /// Returns the names of the remaining fields.
    pub(super) fn into_names(self) -> Vec<Text<'de>> {
        let others = self.has_more.then_some(Text(Cow::Borrowed("(others)")));
        self.fields.into_iter().map(|(name, _)| name).chain(others).collect()
    }
}

/// Reads an object's fields; `left` is the number that the whole state may still have.
pub(super) struct FieldsSeed<'a> {
    pub(super) left: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// The number of fields per object that do not count: the known kinds have fewer.
const FREE: usize = 8;

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields { fields: Vec::new(), has_more: false };
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let known = fields.fields.iter().position(|(other, _)| *other == name);
            let count = fields.fields.len();
            let has_room = count < FREE || (count < MAX_FIELDS && *self.left > 0);
            if known.is_none() && (!has_room || name.len() > MAX_NAME) {
                map.next_value::<IgnoredAny>()?;
                fields.has_more = true;
                continue;
            }
            let value = map.next_value()?;
            if let Some(place) = known {
                fields.fields[place].1 = value;
            } else {
                *self.left -= usize::from(count >= FREE);
                fields.fields.push((name, value));
            }
        }
        Ok(fields)
    }
}

/// Reads an object's fields; returns `None` for null, and an error for any other value.
pub(super) struct MaybeFieldsSeed<'a>(pub(super) FieldsSeed<'a>);

impl<'de> DeserializeSeed<'de> for MaybeFieldsSeed<'_> {
    type Value = Option<Result<Fields<'de>, ()>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MaybeFieldsSeed<'_> {
    type Value = Option<Result<Fields<'de>, ()>>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Some(Err(())))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Some(Err(())))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Some(Err(())))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Some(Err(())))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Some(Err(())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        skip_rest(&mut seq)?;
        Ok(Some(Err(())))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.0.visit_map(map).map(|fields| Some(Ok(fields)))
    }
}

impl<'de> Deserialize<'de> for Field<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Value::Boolean(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Value::Natural(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Value::Integer(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Field<'de>, E> {
        Ok(Field::Plain(Value::Number(value)))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Field<'de>, E> {
        Ok(if text.len() > MAX_NAME { Field::TooLong } else { Field::Text(text.into()) })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Field<'de>, E> {
        let field = || Field::Text(text.to_owned().into());
        Ok(if text.len() > MAX_NAME { Field::TooLong } else { field() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Field<'de>, A::Error> {
        skip_rest(&mut seq)?;
        Ok(Field::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Nested)
    }
}
