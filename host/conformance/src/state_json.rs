//! The workers in the JSON of each dialect.

use relayer_rest_state::{Object, OtherObject, RelayerState, Value as Plain, Worker, WorkerData};
use serde_json::{Map, Value, json};

use super::dialect::Dialect;

/// Returns the workers by kind, in the order in which a relayer lists them.
pub(super) fn workers(dialect: Dialect, state: &RelayerState) -> Map<String, Value> {
    let mut kinds = Map::new();
    for worker in &state.workers {
        let kind = kinds.entry(kind(&worker.object)).or_insert_with(|| json!([]));
        if let Value::Array(workers) = kind {
            workers.push(entry(dialect, worker));
        }
    }
    kinds
}

fn entry(dialect: Dialect, worker: &Worker) -> Value {
    let object = object(&worker.object);
    match dialect {
        Dialect::V0_7 | Dialect::Any => json!({"id": worker.id, "object": object}),
        Dialect::V1_13 => {
            let data = match &worker.data {
                None => Value::Null,
                Some(WorkerData::Client { misbehaviour, refresh }) => {
                    json!({"type": "Client", "misbehaviour": misbehaviour, "refresh": refresh})
                }
                Some(WorkerData::Other(data)) => other(data),
            };
            json!({"id": worker.id, "object": object, "data": data})
        }
    }
}

fn kind(object: &Object) -> &str {
    match object {
        Object::Client { .. } => "Client",
        Object::Channel { .. } => "Channel",
        Object::Connection { .. } => "Connection",
        Object::Packet { .. } => "Packet",
        Object::Wallet { .. } => "Wallet",
        Object::CrossChainQuery { .. } => "CrossChainQuery",
        Object::Other(other) => &other.kind,
    }
}

fn object(object: &Object) -> Value {
    let kind = kind(object);
    match object {
        Object::Client { dst_chain_id, dst_client_id, src_chain_id } => json!({
            "type": kind,
            "dst_chain_id": dst_chain_id.as_str(),
            "dst_client_id": **dst_client_id,
            "src_chain_id": src_chain_id.as_str(),
        }),
        Object::Connection { dst_chain_id, src_chain_id, src_connection_id } => json!({
            "type": kind,
            "dst_chain_id": dst_chain_id.as_str(),
            "src_chain_id": src_chain_id.as_str(),
            "src_connection_id": **src_connection_id,
        }),
        Object::Channel { dst_chain_id, src_chain_id, src_channel_id, src_port_id }
        | Object::Packet { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => json!({
            "type": kind,
            "dst_chain_id": dst_chain_id.as_str(),
            "src_chain_id": src_chain_id.as_str(),
            "src_channel_id": **src_channel_id,
            "src_port_id": **src_port_id,
        }),
        Object::Wallet { chain_id } => json!({"type": kind, "chain_id": chain_id.as_str()}),
        Object::CrossChainQuery { src_chain_id, dst_chain_id, query_id, connection_id } => json!({
            "type": kind,
            "src_chain_id": src_chain_id.as_str(),
            "dst_chain_id": dst_chain_id.as_str(),
            "query_id": **query_id,
            "connection_id": **connection_id,
        }),
        Object::Other(object) => other(object),
    }
}

fn other(object: &OtherObject) -> Value {
    let value = |value: &Plain| match value {
        Plain::Null => Value::Null,
        Plain::Boolean(value) => (*value).into(),
        Plain::Natural(value) => (*value).into(),
        Plain::Integer(value) => (*value).into(),
        Plain::Number(value) => (*value).into(),
        Plain::Text(text) => Value::from(&**text),
    };
    let fields = object.fields.iter().map(|(name, field)| (name.to_string(), value(field)));
    let kind = ("type".to_owned(), Value::from(&*object.kind));
    [kind].into_iter().chain(fields).collect::<Map<_, _>>().into()
}
