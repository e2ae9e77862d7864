//! A module that returns the workers, whose last one numbers the state. It responds to all states
//! unless its kind is `broken`: then it fails for some of them as the query says, `?mode=panic` or
//! `?mode=error`. The response of `/large` is some 100 KiB larger. If its kind is `slowly`, it takes
//! a part of a second. `/kind` returns its kind, and does not depend on the state.

use std::hint::black_box;

use relayer_rest_sdk::{Host, Request, Response, State};
use serde_json::{Value, json};

relayer_rest_sdk::module!(handle);

/// The kind of the module, which tests replace in the component.
static KIND: [u8; 16] = *b"live-kind:steady";

/// Handles a request.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    respond(host, request).unwrap_or_else(|response| response)
}

fn respond<H: Host>(host: &H, request: &Request) -> Result<Response, Response> {
    if request.path == "/kind" {
        return Ok(Response::success(String::from_utf8_lossy(&black_box(KIND))));
    }
    // A module of the API has successful responses also without a state.
    let Ok(state) = host.state() else { return Ok(Response::success(())) };
    let workers: Vec<Value> = State::new(&state)
        .workers()
        .map(|worker| json!({"id": worker.id, "kind": worker.object.kind()}))
        .collect();
    let number = State::new(&state).workers().map(|worker| worker.id).max().unwrap_or(0);
    if black_box(KIND).ends_with(b"slowly") {
        for step in 0..200_000_000 {
            black_box(step);
        }
    }
    if black_box(KIND).ends_with(b"broken") && number % 7 == 3 {
        match request.query("mode")?.as_deref() {
            Some("panic") => panic!("state {number}"),
            Some("error") => return Ok(Response::json(500, &number)),
            _ => {}
        }
    } else if black_box(KIND).ends_with(b"broken") {
        request.query("mode")?;
    }
    let mut document = json!({"number": number, "workers": workers});
    if request.path == "/large" {
        document["large"] = number.to_string().repeat(1 << 15).into();
    }
    Ok(Response::json(200, &document))
}
