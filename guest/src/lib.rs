//! The REST API of a relayer between blockchains.
//!
//! | file | job |
//! |---|---|
//! | `dialect.rs` | how relayers of different ages answer |
//! | `router.rs` | the table of routes, and what answers when none matches |
//! | `routes/` | one file an endpoint: reads the relayer, gives an answer |
//! | `json/` | the JSON of each resource, field by field |
//! | `answer.rs` | answers and errors, each with its status and headers |
//! | `relayer.rs` | what a route can read: the contract's imports as a trait |
//! | `arena.rs` | the allocator |
//! | `lib.rs` | this file: the only one that knows of the host |
//!
//! Everything but this file and the allocator is plain Rust and is tested
//! natively, against a relayer made up in the test.

mod answer;
#[cfg(target_family = "wasm")]
mod arena;
mod dialect;
mod json;
mod relayer;
mod router;
mod routes;

pub use answer::Answer;
pub use dialect::Dialect;
pub use relayer::Relayer;
pub use router::handle;

/// The contract's types, as plain Rust structs and enums.
pub mod contract {
    pub use crate::bindings::relayer::rest::types::*;
}

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::pedantic,
    reason = "generated from wit/"
)]
mod bindings {
    wit_bindgen::generate!({
        world: "api-module",
        path: "../wit",
        generate_all,
        pub_export_macro: false,
    });

    #[cfg(target_family = "wasm")]
    export!(Module with_types_in self);

    /// What the host instantiates.
    pub struct Module;
}

use bindings::exports::relayer::rest::handler;
use bindings::relayer::rest::{chains, state, version};
use contract::{ChainConfig, Component, NotReady, RelayerState};

/// How this module answers.
const DIALECT: Dialect =
    if cfg!(feature = "dialect-1-13") { Dialect::V1_13 } else { Dialect::V0_7 };

/// The relayer that the host shows through the contract.
struct Host;

impl Relayer for Host {
    fn components(&self) -> Vec<Component> {
        version::components()
    }

    fn chain_ids(&self) -> Result<Vec<String>, NotReady> {
        chains::ids()
    }

    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady> {
        chains::config(id)
    }

    fn state(&self) -> Result<RelayerState, NotReady> {
        state::current()
    }
}

impl handler::Guest for bindings::Module {
    fn handle(request: handler::Request) -> handler::Response {
        let answer = handle(DIALECT, &Host, &request.method, &request.path);
        handler::Response {
            status: answer.status,
            headers: answer
                .headers
                .into_iter()
                .map(|(name, value)| handler::Header {
                    name: name.to_owned(),
                    value: value.into_bytes(),
                })
                .collect(),
            body: answer.body,
        }
    }
}
