//! Parses `/state` in one pass. Parts that are not kept are skipped and never held in
//! memory.
//!
//! | file | job |
//! |---|---|
//! | `fields.rs` | the plain fields of an object of any kind |
//! | `size.rs` | the size of a worker in responses |

mod fields;
mod size;

use std::collections::HashSet;
use std::fmt::{self, Formatter};
use std::sync::Arc;

use relayer_rest_state::{ChainId, Name, Object, OtherObject, RelayerState, Worker, WorkerData};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Read;
use super::bounds::{
    FirstOf, MAX_ALL_FIELDS, MAX_CHAINS, MAX_NAME, MAX_SHARED_NAMES, MAX_STATE, MAX_WORKERS,
    Unread, skip_rest,
};
use super::texts::Text;
use fields::{FieldError, Fields, FieldsSeed, MaybeFieldsSeed};

/// The result of `/state`.
pub(super) struct StateJson(pub(super) Read<RelayerState>);

/// The progress of parsing a state.
struct Reading {
    shared_names: HashSet<Name>,
    workers: Vec<Worker>,
    fields_left: usize,
    /// The size that further workers may have; `None` after one that did not fit.
    size_left: Option<usize>,
    unread: Unread,
}

impl Reading {
    /// Returns a text that is likely to be repeated, shared if it occurred before.
    fn shared(&mut self, text: &str) -> Name {
        if let Some(name) = self.shared_names.get(text) {
            return Arc::clone(name);
        }
        let name = Name::from(text);
        if self.shared_names.len() < MAX_SHARED_NAMES {
            self.shared_names.insert(Arc::clone(&name));
        }
        name
    }

    fn left_out(&mut self, kind: &str, part: &str, names: Vec<Text<'_>>) {
        for name in names {
            let message = "unknown field, or not of a supported type";
            self.unread.add(format_args!("workers.{kind}.{part}.{}", &*name), message);
        }
    }
}

impl<'de> Deserialize<'de> for StateJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StateVisitor)
    }
}

struct StateVisitor;

impl<'de> Visitor<'de> for StateVisitor {
    type Value = StateJson;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the chains and the workers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StateJson, A::Error> {
        let mut reading = Reading {
            shared_names: HashSet::new(),
            workers: Vec::new(),
            fields_left: MAX_ALL_FIELDS,
            size_left: Some(MAX_STATE),
            unread: Unread::default(),
        };
        let mut chains: Option<FirstOf<Text<'de>, MAX_CHAINS>> = None;
        let mut has_workers = false;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "chains" => chains = Some(map.next_value()?),
                "workers" => {
                    map.next_value_seed(KindsSeed(&mut reading))?;
                    has_workers = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let chains = chains.ok_or_else(|| A::Error::missing_field("chains"))?;
        if !has_workers {
            return Err(A::Error::missing_field("workers"));
        }
        let chains = super::usable_ids(chains, "chains", &mut reading.unread);
        let Reading { workers, unread, .. } = reading;
        let value = RelayerState { chains, workers };
        Ok(StateJson(Read { value, unread: unread.into_fields() }))
    }
}

/// Reads the workers of all kinds: `{"Client":[…],"Packet":[…]}`.
struct KindsSeed<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for KindsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KindsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(kind) = map.next_key::<Text<'de>>()? {
            map.next_value_seed(WorkersSeed { reading: self.0, kind: &kind })?;
        }
        Ok(())
    }
}

/// Reads the workers of a kind.
struct WorkersSeed<'a> {
    reading: &'a mut Reading,
    kind: &'a str,
}

impl<'de> DeserializeSeed<'de> for WorkersSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for WorkersSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { reading, kind } = self;
        let mut has_more = false;
        while let Some(left) = reading.size_left.filter(|_| reading.workers.len() < MAX_WORKERS) {
            match seq.next_element_seed(WorkerSeed { reading, kind })? {
                Some(Some(worker)) => {
                    reading.size_left = left.checked_sub(size::of_worker(&worker));
                    match reading.size_left {
                        Some(_) => reading.workers.push(worker),
                        None => has_more = true,
                    }
                }
                Some(None) => {}
                None => return Ok(()),
            }
        }
        if skip_rest(&mut seq)? || has_more {
            let message = format!("only the first {} workers are read", reading.workers.len());
            reading.unread.add(format_args!("workers"), &message);
        }
        Ok(())
    }
}

/// Reads a worker, or leaves it out if a name in it is too long.
struct WorkerSeed<'a> {
    reading: &'a mut Reading,
    kind: &'a str,
}

impl<'de> DeserializeSeed<'de> for WorkerSeed<'_> {
    type Value = Option<Worker>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WorkerSeed<'_> {
    type Value = Option<Worker>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a worker: {\"id\":…,\"object\":{…}}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { reading, kind } = self;
        let mut id: Option<u64> = None;
        let mut object: Option<Option<Object>> = None;
        let mut data = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "id" => id = Some(map.next_value()?),
                "object" => object = Some(map.next_value_seed(ObjectSeed { reading, kind })?),
                "data" => data = map.next_value_seed(DataSeed { reading, kind })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let id = id.ok_or_else(|| A::Error::missing_field("id"))?;
        let object = object.ok_or_else(|| A::Error::missing_field("object"))?;
        Ok(object.map(|object| Worker { id, object, data }))
    }
}

/// Reads the object that a worker serves.
struct ObjectSeed<'a> {
    reading: &'a mut Reading,
    kind: &'a str,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Option<Object>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Self { reading, kind } = self;
        let mut fields = FieldsSeed { left: &mut reading.fields_left }.deserialize(deserializer)?;
        match object(&mut fields, reading) {
            Ok(object) => {
                reading.left_out(kind, "object", fields.into_names());
                Ok(Some(object))
            }
            Err(FieldError::TooLong(name)) => {
                let message = format!("longer than {MAX_NAME} bytes; the worker is omitted");
                reading.unread.add(format_args!("workers.{kind}.object.{name}"), &message);
                Ok(None)
            }
            Err(FieldError::Missing(name)) => Err(D::Error::missing_field(name)),
            Err(FieldError::NotText(name)) => {
                Err(D::Error::custom(format_args!("`{name}` is not a string")))
            }
        }
    }
}

fn object(fields: &mut Fields<'_>, reading: &mut Reading) -> Result<Object, FieldError> {
    let kind = fields.text("type")?;
    let mut shared = |name| fields.text(name).map(|text| reading.shared(&text));
    let object = match &*kind {
        "Client" => Object::Client {
            dst_chain_id: ChainId::from(shared("dst_chain_id")?),
            src_chain_id: ChainId::from(shared("src_chain_id")?),
            dst_client_id: fields.name("dst_client_id")?,
        },
        "Connection" => Object::Connection {
            dst_chain_id: ChainId::from(shared("dst_chain_id")?),
            src_chain_id: ChainId::from(shared("src_chain_id")?),
            src_connection_id: fields.name("src_connection_id")?,
        },
        "Channel" => Object::Channel {
            dst_chain_id: ChainId::from(shared("dst_chain_id")?),
            src_chain_id: ChainId::from(shared("src_chain_id")?),
            src_port_id: shared("src_port_id")?,
            src_channel_id: fields.name("src_channel_id")?,
        },
        "Packet" => Object::Packet {
            dst_chain_id: ChainId::from(shared("dst_chain_id")?),
            src_chain_id: ChainId::from(shared("src_chain_id")?),
            src_port_id: shared("src_port_id")?,
            src_channel_id: fields.name("src_channel_id")?,
        },
        "Wallet" => Object::Wallet { chain_id: ChainId::from(shared("chain_id")?) },
        "CrossChainQuery" => Object::CrossChainQuery {
            src_chain_id: ChainId::from(shared("src_chain_id")?),
            dst_chain_id: ChainId::from(shared("dst_chain_id")?),
            query_id: fields.name("query_id")?,
            connection_id: fields.name("connection_id")?,
        },
        _ => Object::Other(other(&kind, fields, reading)),
    };
    Ok(object)
}

/// Returns an object of an unknown kind, with the remaining plain fields.
fn other(kind: &str, fields: &mut Fields<'_>, reading: &mut Reading) -> OtherObject {
    let plain = fields.take_plain();
    let fields = plain.map(|(name, value)| (reading.shared(&name), value)).collect();
    OtherObject { kind: reading.shared(kind), fields }
}

/// Reads a worker's settings. If they cannot be shown, the worker is still shown without
/// them.
struct DataSeed<'a> {
    reading: &'a mut Reading,
    kind: &'a str,
}

impl<'de> DeserializeSeed<'de> for DataSeed<'_> {
    type Value = Option<WorkerData>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Self { reading, kind } = self;
        let seed = MaybeFieldsSeed(FieldsSeed { left: &mut reading.fields_left });
        let data = match seed.deserialize(deserializer)? {
            None => return Ok(None),
            Some(Ok(mut fields)) => {
                let data = data(&mut fields, reading);
                if data.is_ok() {
                    reading.left_out(kind, "data", fields.into_names());
                }
                data
            }
            Some(Err(())) => Err(""),
        };
        Ok(data
            .map_err(|name| {
                let message = "unknown field, or not of a supported type";
                reading.unread.add(format_args!("workers.{kind}.data{name}"), message);
            })
            .ok())
    }
}

fn data(fields: &mut Fields<'_>, reading: &mut Reading) -> Result<WorkerData, &'static str> {
    let kind = fields.text("type").map_err(|_| ".type")?;
    if &*kind != "Client" {
        return Ok(WorkerData::Other(other(&kind, fields, reading)));
    }
    let misbehaviour = fields.boolean("misbehaviour").ok_or("")?;
    let refresh = fields.boolean("refresh").ok_or("")?;
    Ok(WorkerData::Client { misbehaviour, refresh })
}
