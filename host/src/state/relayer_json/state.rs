//! `/state`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json};

use super::Read;
use super::envelope::UnreadField;
use crate::state::{ChainId, Name, Object, OtherObject, RelayerState, Value, Worker, WorkerData};

#[derive(Deserialize)]
pub(super) struct StateJson {
    chains: Vec<String>,
    workers: BTreeMap<String, Vec<WorkerJson>>,
}

#[derive(Deserialize)]
struct WorkerJson {
    id: u64,
    object: ObjectJson,
    #[serde(default)]
    data: Json,
}

/// An object, and the names of its fields that are not known or not plain.
struct ObjectJson {
    object: Object,
    unread: Vec<String>,
}

impl StateJson {
    pub(super) fn read(self) -> Read<RelayerState> {
        let mut unread = Vec::new();
        let mut workers = Vec::new();
        for (kind, entries) in self.workers {
            for WorkerJson { id, object, data } in entries {
                let (data, data_unread) = worker_data(data);
                let of_object = object.unread.into_iter().map(|name| format!("object.{name}"));
                let of_data = data_unread.into_iter().map(|name| format!("data{name}"));
                unread.extend(of_object.chain(of_data).map(|field| UnreadField {
                    field: format!("workers.{kind}.{field}"),
                    message: "is not a field of this kind that can be shown".to_owned(),
                }));
                workers.push(Worker { id, object: object.object, data });
            }
        }
        let chains = self.chains.into_iter().map(ChainId::from).collect();
        Read { value: RelayerState { chains, workers }, unread }
    }
}

impl<'de> Deserialize<'de> for ObjectJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields(Map::deserialize(deserializer)?);
        let kind = fields.text("type")?;
        let object = match kind.as_str() {
            "Client" => Object::Client {
                dst_chain_id: fields.chain("dst_chain_id")?,
                dst_client_id: fields.name("dst_client_id")?,
                src_chain_id: fields.chain("src_chain_id")?,
            },
            "Connection" => Object::Connection {
                dst_chain_id: fields.chain("dst_chain_id")?,
                src_chain_id: fields.chain("src_chain_id")?,
                src_connection_id: fields.name("src_connection_id")?,
            },
            "Channel" => Object::Channel {
                dst_chain_id: fields.chain("dst_chain_id")?,
                src_chain_id: fields.chain("src_chain_id")?,
                src_channel_id: fields.name("src_channel_id")?,
                src_port_id: fields.name("src_port_id")?,
            },
            "Packet" => Object::Packet {
                dst_chain_id: fields.chain("dst_chain_id")?,
                src_chain_id: fields.chain("src_chain_id")?,
                src_channel_id: fields.name("src_channel_id")?,
                src_port_id: fields.name("src_port_id")?,
            },
            "Wallet" => Object::Wallet { chain_id: fields.chain("chain_id")? },
            "CrossChainQuery" => Object::CrossChainQuery {
                src_chain_id: fields.chain("src_chain_id")?,
                dst_chain_id: fields.chain("dst_chain_id")?,
                query_id: fields.name("query_id")?,
                connection_id: fields.name("connection_id")?,
            },
            _ => {
                let (object, unread) = fields.other(kind);
                return Ok(Self { object: Object::Other(object), unread });
            }
        };
        Ok(Self { object, unread: fields.names() })
    }
}

/// The settings of a worker, and what of them cannot be shown: they are no
/// reason not to show the worker.
fn worker_data(data: Json) -> (Option<WorkerData>, Vec<String>) {
    let Json::Object(fields) = data else {
        let unread = if data.is_null() { Vec::new() } else { vec![String::new()] };
        return (None, unread);
    };
    let mut fields = Fields(fields);
    let named = |names: Vec<String>| names.into_iter().map(|name| format!(".{name}")).collect();
    let Ok(kind) = fields.text::<serde_json::Error>("type") else {
        return (None, vec![".type".to_owned()]);
    };
    if kind != "Client" {
        let (data, unread) = fields.other(kind);
        return (Some(WorkerData::Other(data)), named(unread));
    }
    let misbehaviour = fields.boolean::<serde_json::Error>("misbehaviour");
    let refresh = fields.boolean::<serde_json::Error>("refresh");
    match (misbehaviour, refresh) {
        (Ok(misbehaviour), Ok(refresh)) => {
            let data = WorkerData::Client { misbehaviour, refresh };
            (Some(data), named(fields.names()))
        }
        _ => (None, vec![String::new()]),
    }
}

/// The fields that are not read yet, in their order.
struct Fields(Map<String, Json>);

impl Fields {
    fn take<E: Error>(&mut self, name: &'static str) -> Result<Json, E> {
        self.0.shift_remove(name).ok_or_else(|| E::missing_field(name))
    }

    fn text<E: Error>(&mut self, name: &'static str) -> Result<String, E> {
        match self.take(name)? {
            Json::String(text) => Ok(text),
            _ => Err(E::custom(format_args!("`{name}` is not a text"))),
        }
    }

    fn boolean<E: Error>(&mut self, name: &'static str) -> Result<bool, E> {
        match self.take(name)? {
            Json::Bool(value) => Ok(value),
            _ => Err(E::custom(format_args!("`{name}` is neither true nor false"))),
        }
    }

    fn name<E: Error>(&mut self, name: &'static str) -> Result<Name, E> {
        self.text(name).map(Arc::from)
    }

    fn chain<E: Error>(&mut self, name: &'static str) -> Result<ChainId, E> {
        self.text(name).map(ChainId::from)
    }

    /// What is left, as an object of a kind that is not known; and the names
    /// of the fields whose values are not plain.
    fn other(self, kind: String) -> (OtherObject, Vec<String>) {
        let mut unread = Vec::new();
        let mut fields = Vec::with_capacity(self.0.len());
        for (name, value) in self.0 {
            match plain(value) {
                Some(value) => fields.push((name.into(), value)),
                None => unread.push(name),
            }
        }
        (OtherObject { kind: kind.into(), fields }, unread)
    }

    /// The names of what is left.
    fn names(self) -> Vec<String> {
        self.0.into_iter().map(|(name, _)| name).collect()
    }
}

fn plain(value: Json) -> Option<Value> {
    Some(match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(natural), _) => Value::Natural(natural),
            (None, Some(integer)) => Value::Integer(integer),
            (None, None) => Value::Number(number.as_f64()?),
        },
        Json::String(text) => Value::Text(text.into()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}
