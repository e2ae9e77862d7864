//! A component of the world `wasi:http/proxy` that responds to `/chains` and `/state` with
//! the JSON of the relayer that `run` generates, written with `serde_json` for each request.
#![cfg(target_os = "wasi")]

use std::io::Write;

use serde::{Serialize, Serializer};
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
};

const CHAINS: u64 = 40;
const WORKERS: u64 = 700;

struct Component;

wasip2::http::proxy::export!(Component);

impl Guest for Component {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let body = match request.path_with_query().as_deref() {
            Some("/chains") => json(&chains()),
            Some("/state") => json(&state()),
            _ => None,
        };
        let is_found = body.is_some();
        let body = body.unwrap_or_else(|| br#"{"status":"error"}"#.to_vec());
        let headers = Fields::new();
        let length = body.len().to_string();
        headers.set("content-type", &[b"application/json".to_vec()]).expect("a valid header");
        headers.set("content-length", &[length.into_bytes()]).expect("a valid header");
        let response = OutgoingResponse::new(headers);
        if !is_found {
            response.set_status_code(404).expect("a valid status");
        }
        let outgoing = response.body().expect("the first use of the body");
        ResponseOutparam::set(out, Ok(response));
        let mut stream = outgoing.write().expect("the first use of the stream");
        // An error means that the client has left.
        let is_sent = stream.write_all(&body);
        let is_sent = is_sent.and_then(|()| Write::flush(&mut stream));
        drop(stream);
        if is_sent.is_ok() {
            OutgoingBody::finish(outgoing, None).ok();
        }
    }
}

fn json(result: &impl Serialize) -> Option<Vec<u8>> {
    serde_json::to_vec(&Envelope { status: "success", result }).ok()
}

#[derive(Serialize)]
struct Envelope<T> {
    status: &'static str,
    result: T,
}

#[derive(Serialize)]
struct State {
    chains: Vec<Chain>,
    workers: Workers,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Workers {
    packet: Vec<Worker>,
}

#[derive(Serialize)]
struct Worker {
    id: u64,
    object: Object,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Object {
    Packet {
        dst_chain_id: Chain,
        src_chain_id: Chain,
        src_channel_id: Channel,
        src_port_id: &'static str,
    },
}

/// The number of a chain, written as its id.
struct Chain(u64);

/// The number of a channel, written as its id.
struct Channel(u64);

impl Serialize for Chain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("chain-{:02}", self.0))
    }
}

impl Serialize for Channel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("channel-{}", self.0))
    }
}

fn chains() -> Vec<Chain> {
    (0..CHAINS).map(Chain).collect()
}

fn state() -> State {
    let worker = |id| Worker {
        id,
        object: Object::Packet {
            dst_chain_id: Chain(id % CHAINS),
            src_chain_id: Chain(id / CHAINS % CHAINS),
            src_channel_id: Channel(100 + id),
            src_port_id: "transfer",
        },
    };
    State { chains: chains(), workers: Workers { packet: (0..WORKERS).map(worker).collect() } }
}
