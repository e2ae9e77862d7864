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
//! # Request path
//!
//! | step | files |
//! |---|---|
//! | accept a connection within the limits, and detect HTTP/1.1 or HTTP/2 | `http/server.rs`, `http/connection_manager.rs`, `http/connection.rs` |
//! | close a connection whose client is idle or stalled, or evict it for a new one | `http/connection_activity.rs`, `http/tracked_stream.rs`, `http/roster.rs` |
//! | validate the request before routing: `Host` header and size limits | `http/request_check.rs`, `http/host.rs`, `http/limits.rs` |
//! | assign the request id and the log span | `http/service.rs`, `http/request_id.rs` |
//! | route to the mount: the API's or an extension's | `registry.rs`, `registry/path.rs` |
//! | select the active module; roll back or trip the circuit breaker if it fails | `registry/mount.rs`, `registry/circuit_breaker.rs`, `registry/failure_window.rs` |
//! | look up the response cache | `cache.rs`, `cache/entries.rs` |
//! | join the in-flight run for the same key (single-flight) | `cache/in_flight.rs` |
//! | acquire a run permit, or refuse the request (503 on overload, 429 after too many cancellations) | `module/run_permit.rs`, `module/admission.rs`, `http/cancelled.rs` |
//! | run the module on a fresh instance | `module/run_permit.rs`, `module/instance.rs` |
//! | allocate its slot from the pool; verify the reset of slots from time to time | `module/engine.rs`, `module/address_space.rs`, `module/verify.rs` |
//! | move a slow guest to threads of a lower priority | `module/slow_targets.rs`, `module/guest_time.rs`, `module/slow_guest_pool.rs`, `priority.rs` |
//! | serve the guest's reads of the snapshot, and record them | `module/host_functions.rs`, `module/read_set.rs`, `state/snapshot.rs` |
//! | validate the response: no headers or cookies with effects beyond the mount | `module/response.rs`, `module/header_grants.rs`, `module/set_cookie.rs` |
//! | add `etag`, `vary` and `cache-control` | `response.rs` |
//! | evaluate preconditions and compress the body for the client | `http/reply.rs`, `http/conditional.rs`, `http/accept_encoding.rs`, `response/compression.rs`, `response/background.rs` |
//! | make an error response if the module gives none | `http/error.rs` |
//! | send the response within the budget of unsent bytes | `http/send_admission.rs`, `http/send_budget.rs` |
//! | release idle memory to the system after load | `cli/idle_memory.rs` |
//!
//! # Deployment
//!
//! | step | files |
//! |---|---|
//! | receive a candidate: over the control socket, from a changed file, or by a call | `http/control_server.rs`, `cli/modules.rs`, `registry/swap.rs` |
//! | preflight: read it, compile it in a process of its own, and check it against the contract | `registry/preflight.rs`, `module/compiler.rs`, `module/code_cache.rs`, `module/componentize.rs`, `module/load.rs`, `module/import_check.rs`, `module/grants.rs`, `module/cost.rs` |
//! | probe its conformance to the dialect | `conformance.rs`, `conformance/` |
//! | compare its responses to clients' requests with those of the active module | `registry/compare.rs` |
//! | activate it (hot-swap) | `registry/mount.rs` |
//! | roll back if it fails | `registry/mount.rs`, `registry/failure_policy.rs` |
//!
//! # Reload
//!
//! | step | files |
//! |---|---|
//! | receive a signal or a control request | `cli/signals.rs`, `http/control_server.rs` |
//! | read the settings, and derive the mounts from them | `config.rs`, `cli/mount_spec.rs` |
//! | load new or changed modules, and check them | `cli/modules.rs`, `registry/health_check.rs` |
//! | replace all mounts at once | `registry.rs` |
//!
//! # Where to add things
//!
//! | addition | files |
//! |---|---|
//! | an endpoint | a module: `guest/src/router.rs` |
//! | state that modules can read | `wit/`, `module/contract.rs`, `module/read_set.rs`, `module/host_functions.rs` |
//! | a rule of a dialect | `conformance/rules.rs` |
//! | a control verb | `control.rs`, `http/control_server.rs`, and a file in `cli/` |
//! | a limit | `module/limits.rs`, or `http/limits.rs` for clients |
//! | an encoding of bodies | `response/encoding.rs` |
//! | a source of state | a file in `state/` that fills a [`state::StatePublisher`], and `cli/sources.rs` |
//! | a setting | `config.rs`, `config/default.toml` |
//! | a command | a file in `cli/` |
//!
//! # Helpers
//!
//! | job | files |
//! |---|---|
//! | growing delays, and limits of log lines | `backoff.rs`, `log_rate.rs` |
//! | reading files and TOML, and JSON within bounds | `files.rs`, `toml_text.rs`, `bounded_json.rs` |
//! | texts for messages and logs | `text.rs` |
//! | checks that threads can be created | `threads.rs` |

mod backoff;
mod bounded_json;
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
