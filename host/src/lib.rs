//! Serves a relayer's REST API from a sandboxed WebAssembly module.
//!
//! A relayer that embeds this crate publishes its state and serves it:
//!
//! ```
//! use std::error::Error;
//! use std::net::SocketAddr;
//!
//! use relayer_rest_host::Server;
//! use relayer_rest_host::module::{Engine, Limits, Module};
//! use relayer_rest_host::state::{RelayerState, StatePublisher};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn Error>> {
//!     let publisher = StatePublisher::new();
//!     publisher.set_state(RelayerState { chains: vec!["ibc-0".into()], workers: vec![] });
//!
//!     let engine = Engine::new(&Limits::default())?;
//!     let server = Server::new(Module::embedded(&engine)?, publisher.reader());
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let address = listener.local_addr()?;
//!     let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//!     let serving = tokio::spawn(server.serve(listener, async { drop(stopped.await) }));
//!
//!     let state = r#"{"status":"success","result":{"chains":["ibc-0"],"workers":{}}}"#;
//!     assert_eq!(get(address, "/state").await?, state);
//!
//!     publisher.update_state(|state| state.chains.push("ibc-1".into()));
//!     assert!(get(address, "/state").await?.contains(r#"["ibc-0","ibc-1"]"#));
//!
//!     stop.send(()).ok();
//!     serving.await?;
//!     Ok(())
//! }
//!
//! /// The body of the answer to a GET.
//! async fn get(address: SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
//!     let mut stream = TcpStream::connect(address).await?;
//!     let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
//!     stream.write_all(request.as_bytes()).await?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer).await?;
//!     Ok(answer.split_once("\r\n\r\n").ok_or("no body")?.1.to_owned())
//! }
//! ```
//!
//! # Where a request goes
//!
//! | step | where |
//! |---|---|
//! | a connection is accepted where there is room, and speaks HTTP/1.1 or HTTP/2 | `http/server.rs`, `http/connection_manager.rs`, `http/connection.rs` |
//! | … and is closed when its client is silent, or makes room | `http/connection_activity.rs`, `http/tracked_stream.rs`, `http/roster.rs` |
//! | a request is one, and not too large | `http/request_check.rs`, `http/host.rs`, `http/limits.rs` |
//! | it gets its id and its place in the log | `http/service.rs`, `http/request_id.rs` |
//! | it is for the API, or for an extension | `registry.rs`, `registry/path.rs` |
//! | … whose module in service answers it, unless it is out of service | `registry/mount.rs`, `registry/circuit_breaker.rs`, `registry/failure_window.rs` |
//! | its answer may be remembered | `cache.rs`, `cache/entries.rs` |
//! | others may be waiting for the same one | `cache/in_flight.rs` |
//! | it waits for its turn, or is turned away | `module/call.rs`, `admission.rs`, `http/cancelled.rs` |
//! | a fresh instance of the module is asked | `module/call.rs`, `module/instance.rs` |
//! | … in a slot of the pool, which is checked now and then | `module/engine.rs`, `module/address_space.rs`, `module/verify.rs` |
//! | … and goes on elsewhere where it takes long | `module/slow_targets.rs`, `module/guest_time.rs`, `module/slow_guest_pool.rs`, `priority.rs` |
//! | … which reads the relayer's state | `module/host_functions.rs`, `module/read_set.rs`, `state/snapshot.rs` |
//! | the answer has no headers with power beyond the mount | `module/response.rs`, `module/header_grants.rs`, `module/set_cookie.rs` |
//! | … and gets its validator and says what it varies with | `response.rs` |
//! | … and is told as the client wants it | `http/reply.rs`, `http/conditional.rs`, `http/accept_encoding.rs`, `response/compression.rs`, `response/background.rs` |
//! | … or is made in the module's place | `http/error.rs` |
//! | it is sent as far as there is room for what clients have not taken | `http/send_admission.rs`, `http/send_budget.rs` |
//! | memory is returned to the system when there is no load | `cli/idle_memory.rs` |
//!
//! # How a module comes into service
//!
//! | step | where |
//! |---|---|
//! | it comes over the control socket, from a file that changed, or by a call | `http/control_server.rs`, `cli/modules.rs`, `registry/swap.rs` |
//! | it is read, compiled by a process of its own, and held against the contract | `registry/preflight.rs`, `module/compiler.rs`, `module/code_cache.rs`, `module/componentize.rs`, `module/load.rs`, `module/import_check.rs`, `module/grants.rs`, `module/cost.rs` |
//! | it is asked all that its dialect speaks of | `conformance.rs`, `conformance/` |
//! | it is asked what clients ask | `registry/compare.rs` |
//! | it is exchanged for the one in service | `registry/mount.rs` |
//! | … which is put back where the new one fails | `registry/mount.rs`, `registry/failure_policy.rs` |
//!
//! # How the settings are read again
//!
//! | step | where |
//! |---|---|
//! | a signal or a control request asks for it | `cli/signals.rs`, `http/control_server.rs` |
//! | what they say becomes what is to be mounted | `config.rs`, `cli/mount_spec.rs` |
//! | what is new is loaded and asked | `cli/modules.rs`, `registry/health_check.rs` |
//! | all of it is exchanged at once | `registry.rs` |
//!
//! # Where the next thing goes
//!
//! | what | where |
//! |---|---|
//! | an endpoint | a module: `guest/src/router.rs` |
//! | something a module can read | `wit/`, `module/contract.rs`, `module/read_set.rs`, `module/host_functions.rs` |
//! | a rule of a dialect | `conformance/rules.rs` |
//! | a control verb | `control.rs`, `http/control_server.rs`, and a file in `cli/` |
//! | a limit | `module/limits.rs`, or `http/limits.rs` for clients |
//! | an encoding of bodies | `response/encoding.rs` |
//! | a source of state | a file in `state/` that fills a [`state::StatePublisher`], and `cli/sources.rs` |
//! | a setting | `config.rs`, `config/default.toml` |
//! | a command | a file in `cli/` |

mod admission;
mod backoff;
pub mod cache;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod config;
pub mod conformance;
pub mod control;
mod files;
mod http;
mod log_rate;
pub mod module;
mod priority;
pub mod registry;
pub mod response;
pub mod state;
mod text;
mod threads;
mod toml_text;

pub use http::{AllowedHost, AllowedHostError, HttpLimits, Server};
pub use toml_text::Position;
