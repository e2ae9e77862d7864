//! What the relayer is doing: its chains, and its workers by kind.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::contract::{Field, Object, OtherObject, RelayerState, Value, Worker};

/// About how many bytes a worker's JSON has.
pub(crate) const WORKER_SIZE: usize = 176;

#[derive(Serialize)]
pub(crate) struct StateJson<'a> {
    chains: &'a [String],
    workers: WorkersJson<'a>,
}

/// A map from each kind to its workers. They come sorted by kind.
struct WorkersJson<'a> {
    workers: &'a [Worker],
    names: &'a [String],
}

/// Workers of one kind.
struct EntriesJson<'a> {
    workers: &'a [Worker],
    names: &'a [String],
}

#[derive(Serialize)]
struct EntryJson<'a> {
    id: u64,
    object: ObjectJson<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ObjectJson<'a> {
    Known(KnownJson<'a>),
    Other(OtherJson<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum KnownJson<'a> {
    Client {
        dst_chain_id: &'a str,
        dst_client_id: &'a str,
        src_chain_id: &'a str,
    },
    Connection {
        dst_chain_id: &'a str,
        src_chain_id: &'a str,
        src_connection_id: &'a str,
    },
    Channel {
        dst_chain_id: &'a str,
        src_chain_id: &'a str,
        src_channel_id: &'a str,
        src_port_id: &'a str,
    },
    Packet {
        dst_chain_id: &'a str,
        src_chain_id: &'a str,
        src_channel_id: &'a str,
        src_port_id: &'a str,
    },
    Wallet {
        chain_id: &'a str,
    },
    CrossChainQuery {
        src_chain_id: &'a str,
        dst_chain_id: &'a str,
        query_id: &'a str,
        connection_id: &'a str,
    },
}

/// An object of a kind of which only the fields are known.
struct OtherJson<'a> {
    object: &'a OtherObject,
    names: &'a [String],
}

#[derive(Serialize)]
#[serde(untagged)]
enum ValueJson<'a> {
    Null,
    Boolean(bool),
    Natural(u64),
    Integer(i64),
    Number(f64),
    Text(&'a str),
}

impl<'a> From<&'a RelayerState> for StateJson<'a> {
    fn from(state: &'a RelayerState) -> Self {
        let workers = WorkersJson { workers: &state.workers, names: &state.names };
        Self { chains: &state.chains, workers }
    }
}

impl Serialize for WorkersJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.names;
        let mut kinds = serializer.serialize_map(None)?;
        for workers in
            self.workers.chunk_by(|a, b| kind(&a.object, names) == kind(&b.object, names))
        {
            let entries = EntriesJson { workers, names };
            kinds.serialize_entry(kind(&workers[0].object, names), &entries)?;
        }
        kinds.end()
    }
}

impl Serialize for EntriesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.workers.iter().map(|worker| EntryJson {
            id: worker.id,
            object: ObjectJson::new(&worker.object, self.names),
        }))
    }
}

impl<'a> ObjectJson<'a> {
    fn new(object: &'a Object, names: &'a [String]) -> Self {
        let name = |index: u32| text(names, index);
        Self::Known(match object {
            Object::Client(client) => KnownJson::Client {
                dst_chain_id: name(client.dst_chain_id),
                dst_client_id: name(client.dst_client_id),
                src_chain_id: name(client.src_chain_id),
            },
            Object::Connection(connection) => KnownJson::Connection {
                dst_chain_id: name(connection.dst_chain_id),
                src_chain_id: name(connection.src_chain_id),
                src_connection_id: name(connection.src_connection_id),
            },
            Object::Channel(channel) => KnownJson::Channel {
                dst_chain_id: name(channel.dst_chain_id),
                src_chain_id: name(channel.src_chain_id),
                src_channel_id: name(channel.src_channel_id),
                src_port_id: name(channel.src_port_id),
            },
            Object::Packet(channel) => KnownJson::Packet {
                dst_chain_id: name(channel.dst_chain_id),
                src_chain_id: name(channel.src_chain_id),
                src_channel_id: name(channel.src_channel_id),
                src_port_id: name(channel.src_port_id),
            },
            Object::Wallet(wallet) => KnownJson::Wallet { chain_id: name(wallet.chain_id) },
            Object::CrossChainQuery(query) => KnownJson::CrossChainQuery {
                src_chain_id: name(query.src_chain_id),
                dst_chain_id: name(query.dst_chain_id),
                query_id: name(query.query_id),
                connection_id: name(query.connection_id),
            },
            Object::Other(object) => return Self::Other(OtherJson { object, names }),
        })
    }
}

impl Serialize for OtherJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.object.fields.len()))?;
        map.serialize_entry("type", text(self.names, self.object.kind))?;
        for Field { name, value } in &self.object.fields {
            map.serialize_entry(text(self.names, *name), &ValueJson::new(*value, self.names))?;
        }
        map.end()
    }
}

impl<'a> ValueJson<'a> {
    fn new(value: Value, names: &'a [String]) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(value) => Self::Boolean(value),
            Value::Natural(value) => Self::Natural(value),
            Value::Integer(value) => Self::Integer(value),
            Value::Number(value) => Self::Number(value),
            Value::Text(value) => Self::Text(text(names, value)),
        }
    }
}

/// The key under which a worker stands.
fn kind<'a>(object: &Object, names: &'a [String]) -> &'a str {
    match object {
        Object::Client(_) => "Client",
        Object::Channel(_) => "Channel",
        Object::Connection(_) => "Connection",
        Object::Packet(_) => "Packet",
        Object::Wallet(_) => "Wallet",
        Object::CrossChainQuery(_) => "CrossChainQuery",
        Object::Other(other) => text(names, other.kind),
    }
}

fn text(names: &[String], index: u32) -> &str {
    &names[index as usize]
}

#[cfg(test)]
mod tests {
    use super::StateJson;
    use crate::contract::{
        ChannelObject, ClientData, ClientObject, ConnectionObject, CrossChainQueryObject, Field,
        Object, OtherObject, RelayerState, Value, WalletObject, Worker, WorkerData,
    };

    fn json(names: &[&str], objects: Vec<Object>) -> String {
        let state = RelayerState {
            chains: vec!["a".into(), "b".into()],
            names: names.iter().map(ToString::to_string).collect(),
            workers: (1..)
                .zip(objects)
                .map(|(id, object)| Worker {
                    id,
                    object,
                    data: Some(WorkerData::Client(ClientData {
                        misbehaviour: true,
                        refresh: true,
                    })),
                })
                .collect(),
        };
        serde_json::to_string(&StateJson::from(&state)).unwrap()
    }

    #[test]
    fn without_workers_the_map_is_empty() {
        assert_eq!(json(&[], Vec::new()), r#"{"chains":["a","b"],"workers":{}}"#);
    }

    #[test]
    fn each_kind_has_its_fields_in_their_order_and_no_data() {
        let channel =
            ChannelObject { dst_chain_id: 0, src_chain_id: 1, src_channel_id: 2, src_port_id: 3 };
        let client = ClientObject { dst_chain_id: 0, dst_client_id: 1, src_chain_id: 2 };
        let objects = vec![
            Object::Client(client),
            Object::Client(client),
            Object::Channel(channel),
            Object::Connection(ConnectionObject {
                dst_chain_id: 0,
                src_chain_id: 1,
                src_connection_id: 2,
            }),
            Object::Packet(channel),
            Object::Wallet(WalletObject { chain_id: 0 }),
            Object::CrossChainQuery(CrossChainQueryObject {
                src_chain_id: 0,
                dst_chain_id: 1,
                query_id: 2,
                connection_id: 3,
            }),
        ];
        assert_eq!(
            json(&["zero", "one", "two", "three"], objects),
            concat!(
                r#"{"chains":["a","b"],"workers":{"#,
                r#""Client":[{"id":1,"object":{"type":"Client","dst_chain_id":"zero","dst_client_id":"one","src_chain_id":"two"}},"#,
                r#"{"id":2,"object":{"type":"Client","dst_chain_id":"zero","dst_client_id":"one","src_chain_id":"two"}}],"#,
                r#""Channel":[{"id":3,"object":{"type":"Channel","dst_chain_id":"zero","src_chain_id":"one","src_channel_id":"two","src_port_id":"three"}}],"#,
                r#""Connection":[{"id":4,"object":{"type":"Connection","dst_chain_id":"zero","src_chain_id":"one","src_connection_id":"two"}}],"#,
                r#""Packet":[{"id":5,"object":{"type":"Packet","dst_chain_id":"zero","src_chain_id":"one","src_channel_id":"two","src_port_id":"three"}}],"#,
                r#""Wallet":[{"id":6,"object":{"type":"Wallet","chain_id":"zero"}}],"#,
                r#""CrossChainQuery":[{"id":7,"object":{"type":"CrossChainQuery","src_chain_id":"zero","dst_chain_id":"one","query_id":"two","connection_id":"three"}}]"#,
                r"}}",
            )
        );
    }

    #[test]
    fn unknown_kinds_stand_under_their_names_with_their_fields() {
        let values = [
            Value::Null,
            Value::Boolean(true),
            Value::Natural(u64::MAX),
            Value::Integer(-1),
            Value::Number(0.5),
            Value::Text(2),
        ];
        let other = |kind| {
            let fields = values.iter().map(|&value| Field { name: 2, value }).collect();
            Object::Other(OtherObject { kind, fields })
        };
        let object = |kind: &str| {
            format!(
                r#"{{"type":"{kind}","f":null,"f":true,"f":18446744073709551615,"f":-1,"f":0.5,"f":"f"}}"#
            )
        };
        assert_eq!(
            json(&["K", "L", "f"], vec![other(0), other(1)]),
            format!(
                r#"{{"chains":["a","b"],"workers":{{"K":[{{"id":1,"object":{}}}],"L":[{{"id":2,"object":{}}}]}}}}"#,
                object("K"),
                object("L"),
            )
        );
    }
}
