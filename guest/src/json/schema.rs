//! The schemas of values that `serde` does not write: the state and durations.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::duration::DurationJson;
use super::state::ClientDataJson;

/// The connected chains, and the active workers by kind.
#[derive(JsonSchema)]
#[schemars(rename = "State")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct StateSchema<W> {
    chains: Vec<String>,
    workers: BTreeMap<String, Vec<W>>,
}

/// A worker.
#[derive(JsonSchema)]
#[schemars(rename = "Worker")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct WorkerSchema {
    id: u64,
    object: ObjectSchema,
}

/// A worker with its settings.
#[derive(JsonSchema)]
#[schemars(rename = "Worker")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Worker113Schema {
    id: u64,
    object: ObjectSchema,
    data: Option<DataSchema>,
}

/// The object that a worker is for.
#[derive(JsonSchema)]
#[schemars(rename = "Object", untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ObjectSchema {
    Known(KnownSchema),
    Other(OtherObject),
}

/// The settings of a worker.
#[derive(JsonSchema)]
#[schemars(rename = "Data", untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum DataSchema {
    Client(ClientDataJson),
    Other(OtherData),
}

/// An object of a kind that the API defines.
#[derive(JsonSchema)]
#[schemars(rename = "KnownObject", tag = "type")]
#[expect(dead_code, reason = "only its schema is used")]
enum KnownSchema {
    Client {
        dst_chain_id: String,
        dst_client_id: String,
        src_chain_id: String,
    },
    Connection {
        dst_chain_id: String,
        src_chain_id: String,
        src_connection_id: String,
    },
    Channel {
        dst_chain_id: String,
        src_chain_id: String,
        src_channel_id: String,
        src_port_id: String,
    },
    Packet {
        dst_chain_id: String,
        src_chain_id: String,
        src_channel_id: String,
        src_port_id: String,
    },
    Wallet {
        chain_id: String,
    },
    CrossChainQuery {
        src_chain_id: String,
        dst_chain_id: String,
        query_id: String,
        connection_id: String,
    },
}

/// An object of any other kind.
struct OtherObject;

/// Settings of any other kind.
struct OtherData;

/// Implements the schema of a type as one that is written in place.
macro_rules! inline_schema {
    ($type:ty, $name:literal, $schema:expr) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

inline_schema!(DurationJson, "Duration", json_schema!({"type": "string", "examples": ["14days"]}));
inline_schema!(
    OtherObject,
    "OtherObject",
    other(&["Client", "Connection", "Channel", "Packet", "Wallet", "CrossChainQuery"])
);
inline_schema!(OtherData, "OtherData", other(&["Client"]));

/// Returns the schema of an object whose `type` is none of these.
fn other(known: &[&str]) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {"type": {"type": "string", "not": {"enum": known}}},
        "required": ["type"],
        "additionalProperties": {"type": ["null", "boolean", "number", "string"]},
    })
}
