//! `wasi:http` for components that were built for other hosts, such as `wasmtime serve`,
//! Spin or wasmCloud.
//!
//! The host implements the interfaces itself, because a response depends on each part of the
//! request that a component reads: reads go through the [`TrackedSnapshot`], which records
//! them. Nothing leads outside, as with the rest of WASI ([`wasi`](super::wasi)):
//!
//! | part | behaviour |
//! |---|---|
//! | request | its target has no prefix of the mount; its scheme is `http` |
//! | headers of the request | those in [`request_headers`](super::request_headers); reading all of them is one read |
//! | body of the request | received before the run |
//! | body of the response | collected, within `limits.body`; sent when the component has finished |
//! | trailers | left out |
//! | requests to other servers | refused with `HTTP-request-denied` |
//!
//! | file | job |
//! |---|---|
//! | `wasi_http/bindings.rs` | the traits of the interfaces, generated from `wit/` |
//! | `wasi_http/fields.rs` | headers |
//! | `wasi_http/incoming.rs` | the request |
//! | `wasi_http/outgoing.rs` | the response |
//! | `wasi_http/body.rs` | the body of the response, and its stream |
//! | `wasi_http/denied.rs` | requests to other servers |
#![allow(unreachable_pub, reason = "the generated code exports the types of resources")]

mod bindings;
mod body;
mod denied;
mod fields;
mod incoming;
mod outgoing;

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};

use super::info::ModuleInfo;
use super::limiter::Limiter;
use super::read_set::TrackedSnapshot;
use super::response::InvalidResponse;
use super::store::StoreData;
use super::wire;
use bindings::{outgoing_handler, types};
use body::BodyBudget;
pub use incoming::IncomingRequest;
use outgoing::Outcome;
pub use outgoing::ResponseOutparam;

/// The response of an instance, as far as it has made it.
#[derive(Default)]
pub(super) struct HttpState {
    outcome: Option<Outcome>,
    budget: BodyBudget,
}

/// The parts of a store that the functions of `wasi:http` use.
struct Http<'a> {
    table: &'a mut ResourceTable,
    state: &'a mut HttpState,
    snapshot: &'a mut TrackedSnapshot,
    limiter: &'a mut Limiter,
    module: &'a ModuleInfo,
}

struct HasHttp;

impl HasData for HasHttp {
    type Data<'a> = Http<'a>;
}

/// Defines the functions of `wasi:http`.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, HasHttp>(linker, http)?;
    outgoing_handler::add_to_linker::<_, HasHttp>(linker, http)
}

/// Creates the parameters of a handler.
pub(super) fn begin(
    store: &mut StoreData,
) -> wasmtime::Result<(Resource<IncomingRequest>, Resource<ResponseOutparam>)> {
    let Http { table, state, .. } = http(store);
    state.outcome = None;
    Ok((table.push(IncomingRequest::default())?, table.push(ResponseOutparam)?))
}

/// Returns the response that a handler has made, or why there is none.
pub(super) fn response(store: &mut StoreData) -> Result<wire::Response, InvalidResponse> {
    outgoing::response(http(store).state.outcome.take())
}

fn http(store: &mut StoreData) -> Http<'_> {
    let StoreData { wasi, snapshot, limiter, module, .. } = store;
    let wasi = wasi.as_mut().expect("only where it has WASI is it linked");
    Http { table: &mut wasi.table, state: &mut wasi.http, snapshot, limiter, module }
}
