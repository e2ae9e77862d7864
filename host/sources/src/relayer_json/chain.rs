//! Parses `/chain/:id`.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};
use std::iter;

use relayer_rest_common::toml_text::Position;
use relayer_rest_state::ChainConfig;
use serde::de::value::MapDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Read;
use super::bounds::{MAX_CHAIN, MAX_CHAIN_FIELDS, MAX_NAME, Unread};
use super::envelope::message;
use super::error::ResponseError;
use super::texts::Text;
use crate::hermes_schema;

/// A chain's fields, in the form of the response. Nothing is parsed or copied yet.
pub(super) struct ChainJson<'de> {
    fields: BTreeMap<Text<'de>, &'de RawValue>,
    has_more: bool,
}

impl<'de> Deserialize<'de> for ChainJson<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChainVisitor)
    }
}

struct ChainVisitor;

impl<'de> Visitor<'de> for ChainVisitor {
    type Value = ChainJson<'de>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChainJson<'de>, A::Error> {
        let mut chain = ChainJson { fields: BTreeMap::new(), has_more: false };
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let has_room = chain.fields.len() < MAX_CHAIN_FIELDS && key.len() <= MAX_NAME;
            if has_room || chain.fields.contains_key(&key) {
                chain.fields.insert(key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
                chain.has_more = true;
            }
        }
        Ok(chain)
    }
}

/// Parses a chain's fields independently. A field that cannot be read is left out,
/// because other dialects may write it differently.
pub(super) fn read(json: ChainJson<'_>) -> Result<Read<ChainConfig>, ResponseError> {
    let ChainJson { mut fields, has_more } = json;
    let mut unread = Unread::default();
    let mut size = 0;
    let mut id_error = None;
    fields.retain(|key, value| {
        if size + value.get().len() > MAX_CHAIN {
            let message = format!("exceeds the {} KiB of a chain", MAX_CHAIN >> 10);
            unread.add(format_args!("{}", &**key), &message);
            return false;
        }
        match parse::<Option<String>>(iter::once((&**key, *value))) {
            Ok(_) => {
                size += value.get().len();
                true
            }
            Err((field, message)) => {
                if &**key == "id" {
                    id_error = Some(message);
                } else {
                    unread.add(format_args!("{field}"), &message);
                }
                false
            }
        }
    });
    if has_more {
        let message = format!("only the first {MAX_CHAIN_FIELDS} fields of a chain are read");
        unread.add(format_args!("(others)"), &message);
    }
    // A chain without its identifier is invalid.
    let chain = match id_error {
        Some(message) => Err(message),
        None => parse::<String>(fields.iter().map(|(key, value)| (&**key, *value)))
            .map_err(|(_, message)| message),
    };
    match chain {
        Ok(chain) => Ok(Read { value: chain.config(), unread: unread.into_fields() }),
        Err(message) => {
            let position = Position { line: 1, column: 1 };
            Err(ResponseError::Shape { position, field: "result: ".to_owned(), message })
        }
    }
}

/// Parses these fields of a chain. Fails with the path of the first field that cannot be
/// parsed, and the reason.
fn parse<'de, Id: Deserialize<'de>>(
    fields: impl Iterator<Item = (&'de str, &'de RawValue)>,
) -> Result<hermes_schema::Chain<Id>, (String, String)> {
    let fields = MapDeserializer::<_, serde_json::Error>::new(fields);
    serde_path_to_error::deserialize(fields)
        .map_err(|error| (error.path().to_string(), message(error.inner())))
}
