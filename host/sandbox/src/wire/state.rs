//! The relayer's components and its state.

use std::collections::HashMap;
use std::sync::Arc;

use relayer_rest_state as state;
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lower};

use super::chain::nanoseconds;
use super::shared_list;

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Component {
    name: String,
    version: String,
}

/// A part of the state, or the reason why it is not known.
pub(crate) type Known<T> = Result<T, NotReady>;

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct NotReady {
    pub(crate) message: String,
    #[component(name = "retry-after")]
    pub(crate) retry_after: u64,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct RelayerState {
    #[serde(with = "shared_list")]
    chains: Vec<Arc<str>>,
    names: Names,
    workers: Vec<Worker>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower, Default)]
#[component(record)]
pub(crate) struct Names {
    text: String,
    ends: Vec<u32>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Worker {
    id: u64,
    object: Object,
    data: Option<WorkerData>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum Object {
    #[component(name = "client")]
    Client(ClientObject),
    #[component(name = "channel")]
    Channel(ChannelObject),
    #[component(name = "connection")]
    Connection(ConnectionObject),
    #[component(name = "packet")]
    Packet(ChannelObject),
    #[component(name = "wallet")]
    Wallet(WalletObject),
    #[component(name = "cross-chain-query")]
    CrossChainQuery(CrossChainQueryObject),
    #[component(name = "other")]
    Other(OtherObject),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ClientObject {
    #[component(name = "dst-chain-id")]
    #[serde(rename = "dst_chain_id")]
    dst_chain: u32,
    #[component(name = "dst-client-id")]
    #[serde(rename = "dst_client_id")]
    dst_client: u32,
    #[component(name = "src-chain-id")]
    #[serde(rename = "src_chain_id")]
    src_chain: u32,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ConnectionObject {
    #[component(name = "dst-chain-id")]
    #[serde(rename = "dst_chain_id")]
    dst_chain: u32,
    #[component(name = "src-chain-id")]
    #[serde(rename = "src_chain_id")]
    src_chain: u32,
    #[component(name = "src-connection-id")]
    #[serde(rename = "src_connection_id")]
    src_connection: u32,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ChannelObject {
    #[component(name = "dst-chain-id")]
    #[serde(rename = "dst_chain_id")]
    dst_chain: u32,
    #[component(name = "src-chain-id")]
    #[serde(rename = "src_chain_id")]
    src_chain: u32,
    #[component(name = "src-channel-id")]
    #[serde(rename = "src_channel_id")]
    src_channel: u32,
    #[component(name = "src-port-id")]
    #[serde(rename = "src_port_id")]
    src_port: u32,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct WalletObject {
    #[component(name = "chain-id")]
    #[serde(rename = "chain_id")]
    chain: u32,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct CrossChainQueryObject {
    #[component(name = "src-chain-id")]
    #[serde(rename = "src_chain_id")]
    src_chain: u32,
    #[component(name = "dst-chain-id")]
    #[serde(rename = "dst_chain_id")]
    dst_chain: u32,
    #[component(name = "query-id")]
    #[serde(rename = "query_id")]
    query: u32,
    #[component(name = "connection-id")]
    #[serde(rename = "connection_id")]
    connection: u32,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct OtherObject {
    kind: u32,
    fields: Vec<Field>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Field {
    name: u32,
    value: Value,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum Value {
    #[component(name = "null")]
    Null,
    #[component(name = "boolean")]
    Boolean(bool),
    #[component(name = "natural")]
    Natural(u64),
    #[component(name = "integer")]
    Integer(i64),
    #[component(name = "number")]
    Number(f64),
    #[component(name = "text")]
    Text(u32),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum WorkerData {
    #[component(name = "client")]
    Client(ClientData),
    #[component(name = "other")]
    Other(OtherObject),
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct ClientData {
    misbehaviour: bool,
    refresh: bool,
}

pub(crate) fn components(components: &[state::Component]) -> Vec<Component> {
    components
        .iter()
        .map(|part| Component { name: part.name.clone(), version: part.version.clone() })
        .collect()
}

pub(crate) fn chain_ids(ids: &[state::ChainId]) -> Vec<Arc<str>> {
    ids.iter().map(|id| Arc::clone(id.as_shared())).collect()
}

pub(crate) fn known<'a, T, U>(
    known: &'a state::Known<T>,
    convert: impl FnOnce(&'a T) -> U,
) -> Known<U> {
    known.as_ref().map(convert).map_err(|reason| NotReady {
        message: reason.message.clone(),
        retry_after: nanoseconds(reason.retry_after),
    })
}

pub(crate) fn relayer_state(state: &state::RelayerState) -> RelayerState {
    let mut names = Gathering::default();
    let workers = state.workers.iter().map(|worker| names.worker(worker)).collect();
    RelayerState { chains: chain_ids(&state.chains), names: names.names, workers }
}

/// Collects the texts that workers refer to, each of them once.
#[derive(Default)]
struct Gathering<'a> {
    names: Names,
    places: HashMap<&'a str, u32>,
}

impl<'a> Gathering<'a> {
    fn name(&mut self, name: &'a Arc<str>) -> u32 {
        *self.places.entry(name).or_insert_with(|| {
            let place =
                |count: usize| u32::try_from(count).expect("a module has less memory than that");
            self.names.text.push_str(name);
            self.names.ends.push(place(self.names.text.len()));
            place(self.names.ends.len() - 1)
        })
    }

    fn chain(&mut self, id: &'a state::ChainId) -> u32 {
        self.name(id.as_shared())
    }

    fn worker(&mut self, worker: &'a state::Worker) -> Worker {
        let data = worker.data.as_ref().map(|data| match data {
            state::WorkerData::Client { misbehaviour, refresh } => {
                WorkerData::Client(ClientData { misbehaviour: *misbehaviour, refresh: *refresh })
            }
            state::WorkerData::Other(other) => WorkerData::Other(self.other(other)),
        });
        Worker { id: worker.id, object: self.object(&worker.object), data }
    }

    fn object(&mut self, object: &'a state::Object) -> Object {
        match object {
            state::Object::Client { dst_chain_id, dst_client_id, src_chain_id } => {
                Object::Client(ClientObject {
                    dst_chain: self.chain(dst_chain_id),
                    dst_client: self.name(dst_client_id),
                    src_chain: self.chain(src_chain_id),
                })
            }
            state::Object::Connection { dst_chain_id, src_chain_id, src_connection_id } => {
                Object::Connection(ConnectionObject {
                    dst_chain: self.chain(dst_chain_id),
                    src_chain: self.chain(src_chain_id),
                    src_connection: self.name(src_connection_id),
                })
            }
            state::Object::Channel { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => {
                Object::Channel(self.channel(
                    dst_chain_id,
                    src_chain_id,
                    src_channel_id,
                    src_port_id,
                ))
            }
            state::Object::Packet { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => {
                Object::Packet(self.channel(
                    dst_chain_id,
                    src_chain_id,
                    src_channel_id,
                    src_port_id,
                ))
            }
            state::Object::Wallet { chain_id } => {
                Object::Wallet(WalletObject { chain: self.chain(chain_id) })
            }
            state::Object::CrossChainQuery {
                src_chain_id,
                dst_chain_id,
                query_id,
                connection_id,
            } => Object::CrossChainQuery(CrossChainQueryObject {
                src_chain: self.chain(src_chain_id),
                dst_chain: self.chain(dst_chain_id),
                query: self.name(query_id),
                connection: self.name(connection_id),
            }),
            state::Object::Other(other) => Object::Other(self.other(other)),
        }
    }

    fn channel(
        &mut self,
        dst_chain: &'a state::ChainId,
        src_chain: &'a state::ChainId,
        src_channel: &'a state::Name,
        src_port: &'a state::Name,
    ) -> ChannelObject {
        ChannelObject {
            dst_chain: self.chain(dst_chain),
            src_chain: self.chain(src_chain),
            src_channel: self.name(src_channel),
            src_port: self.name(src_port),
        }
    }

    fn other(&mut self, other: &'a state::OtherObject) -> OtherObject {
        OtherObject {
            kind: self.name(&other.kind),
            fields: other
                .fields
                .iter()
                .map(|(name, value)| Field { name: self.name(name), value: self.value(value) })
                .collect(),
        }
    }

    fn value(&mut self, value: &'a state::Value) -> Value {
        match value {
            state::Value::Null => Value::Null,
            state::Value::Boolean(value) => Value::Boolean(*value),
            state::Value::Natural(value) => Value::Natural(*value),
            state::Value::Integer(value) => Value::Integer(*value),
            state::Value::Number(value) => Value::Number(*value),
            state::Value::Text(value) => Value::Text(self.name(value)),
        }
    }
}
