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
//! | `wasi_http/resources.rs` | the resources of the interfaces |
//! | `wasi_http/fields.rs` | headers |
//! | `wasi_http/method.rs` | methods of requests |
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
mod method;
mod outgoing;
mod resources;

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};

use super::info::ModuleInfo;
use super::limiter::Limiter;
use super::read_set::TrackedSnapshot;
use super::response::InvalidResponse;
use super::wire;
use bindings::{outgoing_handler, types};
use body::BodyBudget;
use resources::OutgoingResponse;
pub use resources::{IncomingRequest, ResponseOutparam};

/// The response that a component has set, or the text of its error.
type Outcome = Result<OutgoingResponse, String>;

/// The response of an instance, until the component has ended.
#[derive(Default)]
pub(super) struct HttpState {
    outcome: Option<Outcome>,
    budget: BodyBudget,
}

/// The parts of a store that the functions of `wasi:http` use.
pub(super) struct Http<'a> {
    pub(super) table: &'a mut ResourceTable,
    pub(super) state: &'a mut HttpState,
    pub(super) snapshot: &'a mut TrackedSnapshot,
    pub(super) limiter: &'a mut Limiter,
    pub(super) module: &'a ModuleInfo,
}

struct HasHttp;

impl HasData for HasHttp {
    type Data<'a> = Http<'a>;
}

/// Defines the functions of `wasi:http` for a store that has its parts.
pub(super) fn define<T: 'static>(
    linker: &mut Linker<T>,
    http: fn(&mut T) -> Http<'_>,
) -> wasmtime::Result<()> {
    types::add_to_linker::<_, HasHttp>(linker, http)?;
    outgoing_handler::add_to_linker::<_, HasHttp>(linker, http)
}

impl Http<'_> {
    /// Creates the parameters of a handler.
    pub(super) fn begin(
        &mut self,
    ) -> wasmtime::Result<(Resource<IncomingRequest>, Resource<ResponseOutparam>)> {
        self.state.outcome = None;
        let request = self.table.push(IncomingRequest::default())?;
        Ok((request, self.table.push(ResponseOutparam)?))
    }

    /// Returns the response that a handler has made, or why it is invalid.
    pub(super) fn end(&mut self) -> Result<wire::Response, InvalidResponse> {
        outgoing::response(self.state.outcome.take())
    }
}
