//! The responses of a scripted chain to JSON-RPC requests, with the methods that Hermes calls.

use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::chain::{Chain, Event};

/// The version of `CometBFT`, which decides the form of the responses.
const VERSION: &str = "0.37.2";
const METHOD_NOT_FOUND: i32 = -32601;

/// Returns the response to a request.
pub(crate) fn respond(chain: &Chain, body: &[u8]) -> Vec<u8> {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let response = match result(chain, &request) {
        Some(result) => json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }),
        None => json!({
            "jsonrpc": "2.0",
            "id": request["id"],
            "error": { "code": METHOD_NOT_FOUND, "message": "Method not found" },
        }),
    };
    response.to_string().into_bytes()
}

fn result(chain: &Chain, request: &Value) -> Option<Value> {
    let parameters = &request["params"];
    match request["method"].as_str()? {
        "health" => Some(json!({})),
        "status" => Some(status(chain)),
        "abci_info" => Some(json!({ "response": {
            "data": "node",
            "version": "1.0.0",
            "last_block_height": chain.height().to_string(),
        } })),
        "abci_query" => Some(abci_query(chain, parameters)),
        "header" => Some(header(chain, parameters)),
        "block_results" => Some(block_results(chain, parameters)),
        _ => None,
    }
}

fn now() -> String {
    humantime::format_rfc3339_nanos(SystemTime::now()).to_string()
}

fn hash() -> String {
    "0".repeat(64)
}

fn address() -> String {
    "0".repeat(40)
}

fn height(parameters: &Value) -> u64 {
    parameters["height"].as_str().and_then(|height| height.parse().ok()).unwrap_or(0)
}

fn status(chain: &Chain) -> Value {
    json!({
        "node_info": {
            "protocol_version": { "p2p": "8", "block": "11", "app": "0" },
            "id": address(),
            "listen_addr": "tcp://127.0.0.1:26656",
            "network": chain.id(),
            "version": VERSION,
            "channels": "40202122233038606100",
            "moniker": "node",
            "other": { "tx_index": "on", "rpc_address": "tcp://127.0.0.1:26657" },
        },
        "sync_info": {
            "latest_block_hash": hash(),
            "latest_app_hash": hash(),
            "latest_block_height": chain.height().to_string(),
            "latest_block_time": now(),
            "earliest_block_hash": hash(),
            "earliest_app_hash": hash(),
            "earliest_block_height": "1",
            "earliest_block_time": "2024-01-01T00:00:00Z",
            "catching_up": false,
        },
        "validator_info": {
            "address": address(),
            "pub_key": {
                "type": "tendermint/PubKeyEd25519",
                "value": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
            },
            "voting_power": "10",
            "proposer_priority": "0",
        },
    })
}

fn header(chain: &Chain, parameters: &Value) -> Value {
    json!({ "header": {
        "version": { "block": "11", "app": "0" },
        "chain_id": chain.id(),
        "height": height(parameters).to_string(),
        "time": now(),
        "last_block_id": null,
        "last_commit_hash": hash(),
        "data_hash": hash(),
        "validators_hash": hash(),
        "next_validators_hash": hash(),
        "consensus_hash": hash(),
        "app_hash": hash(),
        "last_results_hash": hash(),
        "evidence_hash": hash(),
        "proposer_address": address(),
    } })
}

/// Returns a value of the store `ibc`, with an empty proof, which the relayer does not verify.
fn abci_query(chain: &Chain, parameters: &Value) -> Value {
    let key = parameters["data"].as_str().and_then(decode_hex);
    let is_store = parameters["path"] == "store/ibc/key";
    let Some(value) = key.filter(|_| is_store).and_then(|key| chain.value(&key)) else {
        let height = chain.height().to_string();
        return json!({ "response": { "code": 1, "log": "not found", "height": height } });
    };
    let is_proven = parameters["prove"] == true;
    json!({ "response": {
        "code": 0,
        "value": BASE64_STANDARD.encode(value),
        "proofOps": is_proven.then(|| json!({ "ops": [] })),
        "height": chain.height().to_string(),
    } })
}

/// Returns the text of a key, whose bytes have two digits each.
fn decode_hex(digits: &str) -> Option<String> {
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(pairs.iter().map(byte).collect::<Option<_>>()?).ok()
}

fn block_results(chain: &Chain, parameters: &Value) -> Value {
    let height = height(parameters);
    let event = |event: &Event| {
        let attribute =
            |(key, value): &(&str, String)| json!({ "key": key, "value": value, "index": true });
        let attributes: Vec<_> = event.attributes.iter().map(attribute).collect();
        json!({ "type": event.kind, "attributes": attributes })
    };
    let events: Vec<_> = chain.events(height).iter().map(event).collect();
    json!({
        "height": height.to_string(),
        "txs_results": [],
        "begin_block_events": events,
        "end_block_events": [],
        "validator_updates": [],
        "consensus_param_updates": null,
    })
}
