//! The comparison of an API with the one of Hermes.

use std::net::SocketAddr;

use serde_json::Value;

use crate::http::get;
use crate::node::CHAINS;
use crate::wait::until_equal;

/// The name of the REST server in `/version`, whose version is the only difference.
const SERVER: &str = r#""ibc-relayer-rest","version":""#;

/// Returns a path for each kind of response.
fn paths() -> Vec<String> {
    let paths = ["/version", "/state", "/chains", "/chain/nope", "/nope"].map(str::to_owned);
    paths.into_iter().chain(CHAINS.map(|chain| format!("/chain/{chain}"))).collect()
}

/// Waits until all responses are equal, byte for byte.
pub fn until_same(api: SocketAddr, hermes: SocketAddr) {
    for path in paths() {
        until_equal(&path, || (content(api, &path), content(hermes, &path)));
    }
}

/// Returns the status and the body of a response, without the version of the REST server.
fn content(api: SocketAddr, path: &str) -> (u16, String) {
    let (status, body) = get(api, path).content();
    let Some((start, version)) = body.split_once(SERVER) else { return (status, body) };
    let (_, end) = version.split_once('"').unwrap();
    (status, format!("{start}{SERVER}{end}"))
}

/// Returns the number of workers of a kind, in the state that an API serves.
#[must_use]
pub fn workers(api: SocketAddr, kind: &str) -> usize {
    length(&state(api)["workers"][kind])
}

/// Returns the number of chains to which the relayer is connected.
#[must_use]
pub fn connected_chains(api: SocketAddr) -> usize {
    length(&state(api)["chains"])
}

fn state(api: SocketAddr) -> Value {
    let response: Value = serde_json::from_str(&get(api, "/state").body).unwrap();
    response["result"].clone()
}

fn length(array: &Value) -> usize {
    array.as_array().map_or(0, Vec::len)
}
