//! The size of a worker in responses: an upper bound for all dialects, in bytes.

use relayer_rest_state::{Object, OtherObject, Value, Worker, WorkerData};

/// The size of a worker without the fields of its object: braces, id and kind.
const WORKER: usize = 64;

/// The size of a field of a known kind without its text.
const KNOWN_FIELD: usize = 24;

/// The size of a client's settings.
const CLIENT_DATA: usize = 72;

/// The size of a field of an unknown kind without its texts, with the memory that modules
/// need for it beyond its JSON.
const OTHER_FIELD: usize = 8 + 48;

/// The size of a value that is not a text.
const PLAIN_VALUE: usize = 25;

pub(super) fn of_worker(worker: &Worker) -> usize {
    let data = match &worker.data {
        None => 0,
        Some(WorkerData::Client { .. }) => CLIENT_DATA,
        Some(WorkerData::Other(other)) => of_other(other),
    };
    WORKER + of_object(&worker.object) + data
}

fn of_object(object: &Object) -> usize {
    let known = |texts: &[&str]| texts.iter().map(|text| KNOWN_FIELD + escaped(text)).sum();
    match object {
        Object::Client { dst_chain_id, dst_client_id, src_chain_id } => {
            known(&[dst_chain_id.as_str(), dst_client_id, src_chain_id.as_str()])
        }
        Object::Connection { dst_chain_id, src_chain_id, src_connection_id } => {
            known(&[dst_chain_id.as_str(), src_chain_id.as_str(), src_connection_id])
        }
        Object::Channel { dst_chain_id, src_chain_id, src_channel_id, src_port_id }
        | Object::Packet { dst_chain_id, src_chain_id, src_channel_id, src_port_id } => {
            known(&[dst_chain_id.as_str(), src_chain_id.as_str(), src_channel_id, src_port_id])
        }
        Object::Wallet { chain_id } => known(&[chain_id.as_str()]),
        Object::CrossChainQuery { src_chain_id, dst_chain_id, query_id, connection_id } => {
            known(&[src_chain_id.as_str(), dst_chain_id.as_str(), query_id, connection_id])
        }
        Object::Other(other) => of_other(other),
    }
}

fn of_other(other: &OtherObject) -> usize {
    let of_field = |name: &str, value: &Value| {
        let value = match value {
            Value::Text(text) => escaped(text),
            _ => PLAIN_VALUE,
        };
        OTHER_FIELD + escaped(name) + value
    };
    let fields: usize = other.fields.iter().map(|(name, value)| of_field(name, value)).sum();
    // The kind is in the object, and may be a key of the response.
    KNOWN_FIELD + 2 * escaped(&other.kind) + fields
}

/// Returns the length of a text with its escapes.
fn escaped(text: &str) -> usize {
    let of_byte = |byte: u8| match byte {
        0..b' ' => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(of_byte).sum()
}
