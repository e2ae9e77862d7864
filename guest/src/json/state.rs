//! The relayer's state: its connected chains, and its workers by kind.
//!
//! A relayer has up to thousands of workers, and their JSON is most of the output of this
//! API. Workers are therefore assembled from constant pieces and names; `serde_json`
//! writes the rest.

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::dialect::Dialect;
use relayer_rest_sdk as sdk;
use relayer_rest_sdk::contract::{
    ClientData, Field, Names, Object, OtherObject, RelayerState, Value, Worker, WorkerData,
};

/// The approximate size of a worker's JSON, in bytes.
const WORKER_SIZE: usize = 176;

/// The size of the copy for a short name, in bytes: a copy of constant size needs no
/// call.
const PIECE: usize = 16;

/// Appends the state as JSON.
pub(crate) fn write_state(dialect: Dialect, state: &RelayerState, json: &mut Vec<u8>) {
    json.reserve(1024 + state.workers.len() * WORKER_SIZE);
    let texts = Texts::new(&state.names);
    json.extend_from_slice(b"{\"chains\":");
    write(&state.chains, json);
    json.extend_from_slice(b",\"workers\":{");
    let same = |a: &Worker, b: &Worker| texts.kind(&a.object) == texts.kind(&b.object);
    for (number, workers) in state.workers.chunk_by(same).enumerate() {
        if number > 0 {
            json.push(b',');
        }
        write(texts.kind(&workers[0].object), json);
        json.extend_from_slice(b":[");
        for (number, worker) in workers.iter().enumerate() {
            if number > 0 {
                json.push(b',');
            }
            texts.write_worker(dialect, worker, json);
        }
        json.push(b']');
    }
    json.extend_from_slice(b"}}");
}

fn write(value: &(impl Serialize + ?Sized), json: &mut Vec<u8>) {
    serde_json::to_writer(json, value).expect("writing to memory succeeds and every key is a text");
}

/// The texts that workers refer to.
#[derive(Clone, Copy)]
struct Texts<'a> {
    names: &'a Names,
    /// Whether none of the texts needs escapes in JSON.
    plain: bool,
}

/// Writes an object of a known kind: its type, then its fields in the given order.
macro_rules! write_object {
    ($texts:ident, $json:ident, $kind:literal, $object:ident.$first:ident $(, $field:ident)*) => {{
        $json.extend_from_slice(
            concat!("{\"type\":\"", $kind, "\",\"", stringify!($first), "\":").as_bytes(),
        );
        $texts.write_name($object.$first, $json);
        $(
            $json.extend_from_slice(concat!(",\"", stringify!($field), "\":").as_bytes());
            $texts.write_name($object.$field, $json);
        )*
        $json.push(b'}');
    }};
}

impl<'a> Texts<'a> {
    fn new(names: &'a Names) -> Self {
        let plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
        Self { names, plain: names.text.as_bytes().iter().all(plain) }
    }

    /// Returns the start and the end of a text.
    fn place(self, name: u32) -> (usize, usize) {
        let name = name as usize;
        let start = name.checked_sub(1).map_or(0, |before| self.names.ends[before]);
        (start as usize, self.names.ends[name] as usize)
    }

    fn text(self, name: u32) -> &'a str {
        sdk::Names::new(self.names).text(name)
    }

    fn write_name(self, name: u32, json: &mut Vec<u8>) {
        if !self.plain {
            return write(self.text(name), json);
        }
        let (start, end) = self.place(name);
        let text = self.names.text.as_bytes();
        json.push(b'"');
        match text[start..].first_chunk::<PIECE>() {
            Some(piece) if end - start <= PIECE => {
                json.extend_from_slice(piece);
                json.truncate(json.len() - (PIECE - (end - start)));
            }
            _ => json.extend_from_slice(&text[start..end]),
        }
        json.push(b'"');
    }

    fn write_worker(self, dialect: Dialect, worker: &Worker, json: &mut Vec<u8>) {
        json.extend_from_slice(b"{\"id\":");
        write(&worker.id, json);
        json.extend_from_slice(b",\"object\":");
        match &worker.object {
            Object::Client(client) => {
                write_object!(
                    self,
                    json,
                    "Client",
                    client.dst_chain_id,
                    dst_client_id,
                    src_chain_id
                );
            }
            Object::Connection(connection) => write_object!(
                self,
                json,
                "Connection",
                connection.dst_chain_id,
                src_chain_id,
                src_connection_id
            ),
            Object::Channel(channel) => write_object!(
                self,
                json,
                "Channel",
                channel.dst_chain_id,
                src_chain_id,
                src_channel_id,
                src_port_id
            ),
            Object::Packet(channel) => write_object!(
                self,
                json,
                "Packet",
                channel.dst_chain_id,
                src_chain_id,
                src_channel_id,
                src_port_id
            ),
            Object::Wallet(wallet) => write_object!(self, json, "Wallet", wallet.chain_id),
            Object::CrossChainQuery(query) => write_object!(
                self,
                json,
                "CrossChainQuery",
                query.src_chain_id,
                dst_chain_id,
                query_id,
                connection_id
            ),
            Object::Other(object) => write(&OtherJson { object, texts: self }, json),
        }
        if dialect == Dialect::V1_13 {
            json.extend_from_slice(b",\"data\":");
            match &worker.data {
                None => json.extend_from_slice(b"null"),
                Some(WorkerData::Client(data)) => write(&ClientDataJson::from(*data), json),
                Some(WorkerData::Other(object)) => write(&OtherJson { object, texts: self }, json),
            }
        }
        json.push(b'}');
    }

    /// Returns the key under which the workers of a kind are listed.
    fn kind(self, object: &Object) -> &'a str {
        sdk::Names::new(self.names).kind(object)
    }
}

/// The settings of a worker for a client.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClientData")]
pub(super) struct ClientDataJson {
    #[schemars(extend("const" = "Client"))]
    r#type: &'static str,
    misbehaviour: bool,
    refresh: bool,
}

impl From<ClientData> for ClientDataJson {
    fn from(data: ClientData) -> Self {
        Self { r#type: "Client", misbehaviour: data.misbehaviour, refresh: data.refresh }
    }
}

/// An object of a kind that the contract does not define.
struct OtherJson<'a> {
    object: &'a OtherObject,
    texts: Texts<'a>,
}

impl Serialize for OtherJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.object.fields.len()))?;
        map.serialize_entry("type", self.texts.text(self.object.kind))?;
        for Field { name, value } in &self.object.fields {
            map.serialize_entry(self.texts.text(*name), &ValueJson::new(*value, self.texts))?;
        }
        map.end()
    }
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

impl<'a> ValueJson<'a> {
    fn new(value: Value, texts: Texts<'a>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(value) => Self::Boolean(value),
            Value::Natural(value) => Self::Natural(value),
            Value::Integer(value) => Self::Integer(value),
            Value::Number(value) => Self::Number(value),
            Value::Text(value) => Self::Text(texts.text(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::write_state;
    use crate::dialect::Dialect;
    use relayer_rest_sdk::contract::{
        ChannelObject, ClientData, ClientObject, ConnectionObject, CrossChainQueryObject, Field,
        Names, Object, OtherObject, RelayerState, Value, WalletObject, Worker, WorkerData,
    };

    fn json(names: &[&str], objects: Vec<Object>) -> String {
        json_in(Dialect::V0_7, names, objects)
    }

    fn json_in(dialect: Dialect, names: &[&str], objects: Vec<Object>) -> String {
        let state = RelayerState {
            chains: vec!["a".into(), "b".into()],
            names: Names {
                text: names.concat(),
                ends: names
                    .iter()
                    .scan(0, |end, name| {
                        *end += u32::try_from(name.len()).unwrap();
                        Some(*end)
                    })
                    .collect(),
            },
            workers: (1..)
                .zip(objects)
                .map(|(id, object)| Worker {
                    id,
                    data: match object {
                        Object::Client(_) => Some(WorkerData::Client(ClientData {
                            misbehaviour: true,
                            refresh: false,
                        })),
                        _ => None,
                    },
                    object,
                })
                .collect(),
        };
        let mut json = b"before".to_vec();
        write_state(dialect, &state, &mut json);
        String::from_utf8(json).unwrap().strip_prefix("before").unwrap().to_owned()
    }

    #[test]
    fn a_state_without_workers_has_an_empty_map() {
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
    fn workers_of_1_13_have_their_data() {
        let client = ClientObject { dst_chain_id: 0, dst_client_id: 1, src_chain_id: 2 };
        let objects = vec![Object::Client(client), Object::Wallet(WalletObject { chain_id: 0 })];
        assert_eq!(
            json_in(Dialect::V1_13, &["zero", "one", "two"], objects),
            concat!(
                r#"{"chains":["a","b"],"workers":{"Client":[{"id":1,"object":{"type":"Client","dst_chain_id":"zero","dst_client_id":"one","src_chain_id":"two"},"#,
                r#""data":{"type":"Client","misbehaviour":true,"refresh":false}}],"#,
                r#""Wallet":[{"id":2,"object":{"type":"Wallet","chain_id":"zero"},"data":null}]}}"#,
            )
        );
    }

    #[test]
    fn unknown_kinds_are_written_under_their_names_with_their_fields() {
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

    #[test]
    fn names_of_every_length_and_letter_are_written_as_json() {
        let lengths = (0..40).map(|length| "x".repeat(length));
        let odd = ["\"", "a\\b", "\n", "\u{1}", "\u{7f}", "ü", "\u{2028}", "</script>"];
        let plain: Vec<String> = lengths.collect();
        let escaped: Vec<String> = plain.iter().cloned().chain(odd.map(str::to_owned)).collect();
        for names in [plain, escaped] {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let chains = 0..u32::try_from(names.len()).unwrap();
            let wallets = chains.map(|chain_id| Object::Wallet(WalletObject { chain_id }));
            let json = json(&names, wallets.collect());
            let expected = names.iter().zip(1..).map(|(name, id)| {
                let name = serde_json::to_string(name).unwrap();
                format!(r#"{{"id":{id},"object":{{"type":"Wallet","chain_id":{name}}}}}"#)
            });
            let expected = expected.collect::<Vec<_>>().join(",");
            let around = (r#"{"chains":["a","b"],"workers":{"Wallet":["#, "]}}");
            assert_eq!(json, format!("{}{expected}{}", around.0, around.1));
        }
    }
}
