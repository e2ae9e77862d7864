//! Serves the REST API of Hermes from a sandboxed WebAssembly module, inside Hermes.
//!
//! [`spawn`] has the signature of the original's, so that the package in `shim/` replaces the
//! original without a change of Hermes' source:
//!
//! ```toml
//! # Cargo.toml of Hermes
//! [patch.crates-io]
//! ibc-relayer-rest = { path = "relayer-rest/host/hermes/shim" }
//! ```
//!
//! Environment variables have the settings: `RELAYER_REST_CONFIG` the file of the settings,
//! `RELAYER_REST_CONTROL` the control socket, and `RELAYER_REST_CODE_CACHE` the folder for
//! compiled modules. A program sets them, and more, with [`Builder`].
//!
//! The relayer is asked over its channel, which takes one request in 500 ms. No request of a
//! client waits for it.
//!
//! | file | job |
//! |---|---|
//! | `builder.rs` | the settings, and the start |
//! | `service.rs` | the server on a thread of its own: modules, state and control socket |
//! | `channel.rs` | the API of the relayer over its channel |
//! | `fleet.rs` | the publication of the state to a fleet, with the feature `fleet` |
//! | `error.rs` | the reasons why the server cannot start |

mod builder;
mod channel;
mod error;
#[cfg(feature = "fleet")]
mod fleet;
mod service;

use std::error::Error;
use std::net::ToSocketAddrs;

use crossbeam_channel::Sender;
use ibc_relayer::rest::request::Request;
use tokio::task::JoinHandle;

pub use builder::Builder;
pub use error::SpawnError;
pub use relayer_rest_host::conformance::Dialect;
pub use relayer_rest_host::state::Polling;

/// An error as the original returns it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Serves the API at an address, with the state of the relayer at the other end of the
/// channel, until the task ends or is dropped.
///
/// # Errors
/// Returns an error if the address is in use, or if a setting is invalid.
///
/// # Panics
/// Panics outside of a runtime of tokio, as the original does.
pub fn spawn(
    addr: impl ToSocketAddrs,
    sender: Sender<Request>,
) -> Result<JoinHandle<()>, BoxError> {
    Ok(Builder::from_env().spawn(addr, sender)?)
}
