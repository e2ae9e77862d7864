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
//! /// The body of the response to a GET.
//! async fn get(address: SocketAddr, path: &str) -> Result<String, Box<dyn Error>> {
//!     let mut stream = TcpStream::connect(address).await?;
//!     let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
//!     stream.write_all(request.as_bytes()).await?;
//!     let mut response = String::new();
//!     stream.read_to_string(&mut response).await?;
//!     Ok(response.split_once("\r\n\r\n").ok_or("no body")?.1.to_owned())
//! }
//! ```
//!
//! # Request path
//!
//! | step | files |
//! |---|---|
//! | accept a connection within the limits, assign it to a thread, and detect HTTP/1.1 or HTTP/2 | `server/src/http/acceptors.rs`, `server/src/http/worker_threads.rs`, `server/src/http/connections/manager.rs`, `server/src/http/connections/connection.rs` |
//! | close a connection whose client is idle or stalled, or evict it for a new one | `server/src/http/connections/activity.rs`, `server/src/http/connections/tracked_stream.rs`, `server/src/http/connections/roster.rs` |
//! | validate the request before routing: `Host` header and size limits | `server/src/http/request_check.rs`, `server/src/http/host.rs`, `server/src/http/field_values.rs`, `server/src/http/limits.rs` |
//! | receive the body of a request | `server/src/http/received_body.rs` |
//! | remove the path of a proxy | `server/src/http/base_path.rs` |
//! | find the client behind a trusted proxy, and limit its requests | `server/src/http/forwarded.rs` |
//! | assign the request id and the log span | `server/src/http/service.rs`, `server/src/http/request_id.rs` |
//! | serve the description of all declared routes, `/openapi.json` | `server/src/openapi.rs`, `sandbox/src/openapi.rs` |
//! | route to the mount: the API's or an extension's | `server/src/registry.rs`, `server/src/registry/path.rs` |
//! | select the active module; roll back or trip the circuit breaker if it fails | `server/src/registry/mount.rs`, `server/src/registry/circuit_breaker.rs`, `server/src/registry/failure_window.rs` |
//! | look up the response cache | `server/src/cache.rs`, `server/src/cache/local.rs`, `server/src/cache/entries.rs` |
//! | join the in-flight run for the same key (single-flight) | `server/src/cache/in_flight.rs` |
//! | acquire a run permit, or refuse the request (503 on overload, 429 after too many cancellations) | `sandbox/src/run_permit.rs`, `sandbox/src/admission.rs`, `server/src/http/cancelled.rs` |
//! | run the module on a fresh instance, by the handler that it exports | `sandbox/src/run_permit.rs`, `sandbox/src/instance.rs`, `sandbox/src/handler.rs` |
//! | allocate its slot from the pool; verify the reset of slots from time to time | `sandbox/src/engine.rs`, `sandbox/src/address_space.rs`, `sandbox/src/verify.rs` |
//! | move a slow guest to threads of a lower priority | `sandbox/src/slow_targets.rs`, `sandbox/src/long_steps.rs`, `sandbox/src/guest_time.rs`, `sandbox/src/socket_steps.rs`, `sandbox/src/slow_guest_pool.rs`, `common/src/priority.rs` |
//! | serve the guest's reads of the snapshot, and record them | `sandbox/src/host_functions.rs`, `sandbox/src/read_set.rs`, `state/src/snapshot.rs` |
//! | serve the parts of the request to a component of `wasi:http`, and collect its response | `sandbox/src/wasi_http.rs`, `sandbox/src/request_headers.rs` |
//! | validate the response: no headers or cookies with effects beyond the mount | `sandbox/src/response.rs`, `sandbox/src/header_grants.rs`, `sandbox/src/set_cookie.rs` |
//! | respond to a preflight of a web page, and let pages of allowed origins read responses | `server/src/http/cors.rs` |
//! | add `etag`, `vary` and `cache-control` | `server/src/response.rs`, `server/src/response/vary.rs`, `server/src/response/list.rs` |
//! | execute the commands that the module recorded, if the client may give them | `server/src/commands.rs`, `server/src/tokens.rs`, `server/src/commands/in_progress.rs`, `sources/src/upstream.rs` |
//! | evaluate preconditions and compress the body for the client | `server/src/http/reply.rs`, `server/src/http/conditional.rs`, `server/src/http/accept_encoding.rs`, `server/src/http/quality.rs`, `server/src/response/compression.rs`, `server/src/response/background.rs` |
//! | make an error response if the module gives none | `server/src/http/error.rs` |
//! | wait for the next version of the response, or send all versions as events | `server/src/http/live.rs`, `server/src/http/live/interest.rs`, `server/src/http/live/long_poll.rs`, `server/src/http/live/event_stream.rs`, `server/src/http/live/event.rs`, `server/src/http/live/gzip.rs`, `server/src/http/live/patch.rs`, `server/src/http/live/work.rs` |
//! | keep a capsule of a request that failed, from which `replay` repeats it | `sandbox/src/run_record.rs`, `server/src/capsules.rs`, `sandbox/src/capsule.rs`, `cli/src/capsules.rs` |
//! | count the request, with its time | `server/src/request_metrics.rs` |
//! | describe it to observers, such as the access log and traces | `server/src/http/exchange.rs`, `cli/src/access_log.rs`, `cli/src/otlp/traces.rs` |
//! | send the response within the budget of unsent bytes | `server/src/http/send_admission.rs`, `server/src/http/send_budget.rs` |
//! | listen on a socket of the service manager, and notify it | `cli/src/service_manager.rs` |
//! | release idle memory to the system after load | `cli/src/idle_memory.rs` |
//!
//! # Publication
//!
//! | step | files |
//! |---|---|
//! | publish a snapshot, and notify the tasks that wait for it | `state/src/publisher.rs` |
//! | find the responses that clients wait for and that read a changed value | `server/src/http/live/changes.rs`, `server/src/http/live/entries.rs`, `server/src/http/live/key.rs`, `sandbox/src/read_set/state_value.rs` |
//! | run the module for each of them, within the limits | `server/src/http/live/due.rs`, `server/src/http/live/evaluator.rs`, `server/src/http/live/run_budget.rs`, `server/src/http/live/recent_runs.rs`, `server/src/http/live/resolve.rs`, `server/src/http/live/limits.rs` |
//! | wake the clients whose response differs | `server/src/http/live/content.rs`, `server/src/http/live/version.rs`, `server/src/http/live/broadcast.rs`, `server/src/http/live/client_threads.rs`, `server/src/http/live/client.rs`, `server/src/http/live/waiter.rs`, `server/src/http/live/tally.rs` |
//!
//! # Deployment
//!
//! | step | files |
//! |---|---|
//! | receive a candidate: over the control socket or the admin listener, from a changed file, or by a call | `server/src/control/api.rs`, `server/src/reload/modules.rs`, `server/src/registry/swap.rs` |
//! | pull a candidate from an OCI registry, and verify its digest and its signature | `server/src/registry/location.rs`, `oci/src/registries.rs`, `oci/src/signature.rs` |
//! | the first module of a mount: at the start, before the server listens or while it serves | `server/src/reload/first_module.rs`, `server/src/registry/load.rs` |
//! | preflight: read it, compile it in a process of its own, and check it against the contract | `server/src/registry/preflight.rs`, `sandbox/src/compiler.rs`, `sandbox/src/code_cache.rs`, `sandbox/src/componentize.rs`, `sandbox/src/module.rs`, `sandbox/src/world.rs`, `sandbox/src/import_check.rs`, `sandbox/src/grants.rs`, `sandbox/src/cost.rs` |
//! | probe its conformance to the dialect, by comparison with the bundled module | `conformance/src/lib.rs`, `server/src/registry/references.rs` |
//! | compare its responses to clients' requests with those of the active module | `server/src/registry/compare.rs` |
//! | run it on the misses of clients for a time, and compare its responses with those of the active module (shadow) | `server/src/cache/tap.rs`, `server/src/registry/shadow.rs`, `server/src/registry/shadow/options.rs`, `server/src/registry/shadow/session.rs`, `server/src/registry/shadow/tally.rs`, `server/src/registry/shadow/slowdown.rs`, `server/src/registry/shadow/expected.rs`, `server/src/registry/shadow/report.rs`, `cli/src/swap/shadow.rs` |
//! | activate it (hot-swap) | `server/src/registry/mount.rs` |
//! | roll back if it fails | `server/src/registry/mount.rs`, `server/src/registry/failure_policy.rs` |
//!
//! # Reload
//!
//! | step | files |
//! |---|---|
//! | receive a signal or a control request | `cli/src/signals.rs`, `server/src/control/api.rs` |
//! | read the settings from their layers, and derive the mounts from them | `server/src/config/layers.rs`, `server/src/config.rs`, `server/src/reload/mount_spec.rs` |
//! | deploy new or changed modules to mounts of their own | `server/src/reload/modules.rs`, `server/src/registry/load.rs`, `server/src/registry/preflight.rs` |
//! | replace all mounts at once | `server/src/registry.rs` |
//!
//! # Fleets
//!
//! | step | files |
//! |---|---|
//! | connect to the fleet of the settings | `cli/src/fleet.rs`, `cli/src/publish.rs`, `fleet/src/address.rs`, `fleet/src/connection.rs` |
//! | become its writer, or stand by | `fleet/src/writer.rs` |
//! | cut each snapshot into parts, and store changed parts with a commit | `fleet/src/cut.rs`, `fleet/src/state_part.rs`, `fleet/src/part.rs`, `fleet/src/message.rs`, `fleet/src/publication.rs`, `fleet/src/subjects.rs` |
//! | receive the parts, request missing ones, and verify the digest of all | `fleet/src/subscription.rs`, `fleet/src/reader.rs` |
//! | assemble the state, and publish it as one snapshot, with its age | `fleet/src/assemble.rs`, `fleet/src/age.rs`, `state/src/replica.rs`, `state/src/publisher.rs` |
//! | roll out a module: change the plan, choose the hosts of each stage, and decide by their reports | `cli/src/fleet_command.rs`, `cli/src/fleet_command/deploy.rs`, `cli/src/fleet_command/status.rs`, `fleet/src/rollout/operator.rs`, `fleet/src/rollout/plan.rs`, `fleet/src/rollout/stages.rs`, `fleet/src/rollout/plan_store.rs`, `fleet/src/rollout/coordination.rs`, `fleet/src/rollout/coordinator.rs` |
//! | deploy it to a host of a stage, and report the result | `fleet/src/rollout/following.rs`, `fleet/src/rollout/follower.rs`, `fleet/src/rollout/message.rs`, `fleet/src/rollout/mounts.rs`, `server/src/reload/fleet_modules.rs` |
//! | name the generation of a response, or wait for the one that a request requires | `server/src/http/fleet_generation.rs` |
//!
//! # Takeover
//!
//! | step | files |
//! |---|---|
//! | request the sockets of the running server over its control socket | `cli/src/takeover.rs`, `server/src/control/client.rs`, `server/src/control/api.rs` |
//! | pass the sockets and the hot requests of each mount | `server/src/control/takeover/handover.rs`, `server/src/control/takeover/channel.rs`, `server/src/control/takeover/message.rs` |
//! | check the received sockets, and assign them to the settings | `server/src/control/takeover/successor.rs`, `server/src/control/takeover/sockets.rs`, `cli/src/takeover.rs`, `cli/src/sockets.rs` |
//! | wait for the state, and warm the cache | `server/src/registry/warming.rs` |
//! | accept connections, confirm, and let the running server drain | `cli/src/serve.rs`, `cli/src/service_manager.rs`, `server/src/http/server.rs` |
//!
//! # Development
//!
//! | step | files |
//! |---|---|
//! | find the project of a module, and notice changes of its sources | `cli/src/project.rs`, `cli/src/dev/source_files.rs` |
//! | build it, in a process group that ends with the command | `cli/src/dev/build.rs` |
//! | mount the first build, and swap in later ones | `cli/src/dev/deployment.rs`, `server/src/registry/swap.rs` |
//! | exercise its routes, and print the changes | `cli/src/exercise.rs`, `cli/src/dev/document.rs`, `cli/src/dev/session.rs` |
//!
//! # Where to add things
//!
//! Paths are relative to `host/`, except for `guest/`, `tests/`, `docs/` and `wit/`.
//! Each addition also has a test, a line in `CHANGELOG.md` under *Unreleased*, and the pages in `docs/` that
//! the table names; `just docs` (`UPDATE_DOCS=1 cargo test --workspace --test suite -- docs::`)
//! writes the tables that come from the code.
//!
//! | addition | files |
//! |---|---|
//! | an endpoint | a file in `guest/src/routes/`, `guest/src/routes.rs`, and `guest/src/router.rs`, with the number of routes; its description there, from which `UPDATE_OPENAPI=1 cargo test --package relayer-rest-api` writes `guest/openapi/`; for a new first segment `server/src/registry/path.rs`, so that no extension takes it, with its test; its test case in `conformance/src/probe.rs`, to which each candidate must respond from then on, so that it is a breaking change; the data that it needs, in `conformance/src/case.rs`; its comparison in `conformance/src/checks.rs`, with a rule; `docs/api.md`. Both dialects have it, unless the router asks for the dialect. The paths of a 404 are in the tests of `guest/src/router.rs`, in `tests/suite/api/endpoints.rs`, and in the golden files, which `GOLDEN=write cargo test --workspace --test suite -- golden` writes; the requests of load tests are in `tests/src/fuzz.rs`, `tests/src/bin/soak.rs` and `tests/benches/performance/relayers.rs`, with its type in `tests/benches/performance/native.rs` |
//! | state that modules can read | `state/src/snapshot.rs`, `state/src/publisher.rs`, and for fleets `state/src/replica.rs`, `fleet/src/state_part.rs`, `fleet/src/cut.rs` and `fleet/src/assemble.rs`; `wit/`, `sandbox/src/contract.rs`, `sandbox/src/read_set.rs`, `sandbox/src/read_set/state_value.rs`, `sandbox/src/host_functions.rs`; for capsules `sandbox/src/read_set/state_read.rs`, `sandbox/src/capsule/values.rs` and `guest/sdk/src/capsule.rs`; its function in each SDK, as below |
//! | a function of the SDKs | `guest/sdk/src/`, and `cli/templates/python/sdk/` and `cli/templates/js/sdk/` with the same name; its row in `docs/modules.md`; its use in the three modules of `tests/guests/sdk/`, with a request in `tests/src/sdk_cases.rs` |
//! | a command to the relayer | `wit/`, `state/src/command.rs`, `sandbox/src/contract.rs`, `sandbox/src/host_functions.rs`, `sandbox/src/store.rs`; its permission in `server/src/commands/settings.rs` and `server/src/commands.rs`; its request to the relayer in `sources/src/upstream.rs` and `hermes/src/channel.rs`; its endpoint, as above; tests in `tests/suite/api/commands.rs`; `docs/api.md`, `docs/security.md` |
//! | a rule of a dialect | `conformance/src/rules.rs`, `conformance/src/checks.rs`, and a violation in `conformance/src/rules/tests.rs` |
//! | a control verb | `server/src/control.rs`, a route in `server/src/control/api.rs`, `server/src/control/client.rs`, and a command; `tests/suite/cli/control_socket.rs`, and for the admin listener `tests/suite/cli/admin.rs`; the table of requests in `docs/operations.md`, and there the commands with `--json` |
//! | a metric of the host | a line in `server/src/control/metrics/mounts.rs`, `server.rs` or `process.rs` there, and its value in `collect`; `tests/suite/cli/admin.rs` |
//! | an attribute of spans | `server/src/http/exchange.rs` if it is not known there, `cli/src/otlp/traces.rs`; `tests/suite/cli/otlp.rs`; `docs/operations.md` |
//! | a field of the access log | `server/src/http/exchange.rs` if it is not known there, `cli/src/access_log.rs`; `tests/suite/http/access_log.rs`; `docs/operations.md` |
//! | a limit | a row in `sandbox/src/limits.rs`, `server/src/http/limits.rs` for clients, `server/src/http/live/limits.rs` for those that wait, `server/src/registry/candidate.rs` for swaps or `sources/src/settings.rs`; defaults, checks and `config default` come from it; the code that applies it, such as `sandbox/src/engine_config.rs`, `sandbox/src/response.rs` or `server/src/http/request_check.rs`, and for an error of the host `server/src/http/error.rs` and `docs/api.md`; the key in the unit test `every_key_is_read` of `server/src/config.rs`; tests in `tests/suite/sandbox/limits.rs` or `tests/suite/http/limits.rs`; `docs/security.md` |
//! | an encoding of bodies | `server/src/response/encoding.rs` |
//! | a source of state | a file in `sources/src/` that fills a [`state::StatePublisher`], `sources/src/lib.rs`, its settings in `sources/src/settings.rs`, its option in `cli/src/settings.rs`, and its conflicts with the others in `cli/src/sources.rs`; for bytes from outside the bounds of `sources/src/relayer_json/bounds.rs`, and a target in `tests/src/fuzz.rs`; tests in `tests/suite/sources/`; `docs/operations.md`, `docs/security.md` |
//! | a format of the state file | a parser beside `sources/src/state_file.rs`, which `parse` calls there, with bounds as for a source, and with the positions of errors in the file; the help of `--state` in `cli/src/settings.rs`; `tests/suite/sources/files.rs`; `docs/operations.md` |
//! | a problem that the dashboard shows | a function in `guest/extensions/dashboard/page/problems.js`, and its entry in `CHECKS` there; its data in `guest/extensions/dashboard/src/` and in `page/model.js` beside it; `tests/outside/dashboard.rs`; the table in `docs/extensions.md` |
//! | a setting | a field of its section in `server/src/config.rs`, with its text in `server/src/config/default.toml` and its row in `docs/configuration.md`; paths in `PATHS` of `server/src/config/layers.rs`, and sections that a reload applies in `RELOADED` there; an option in `cli/src/settings.rs`; `tests/suite/cli/settings.rs` |
//! | a setting of modules | a field in `server/src/config.rs`, or `server/src/config/extension.rs` for extensions only; its text in `server/src/config/default.toml`; its row in `docs/configuration.md` |
//! | a setting of listeners | a field in `server/src/http/listen_config.rs`, with its problems in `problem` there, and in `Listener::with_config` of `server/src/http/listener.rs`; its paths in `server/src/config/layers.rs`; its text and its row, as for modules; `tests/suite/http/listeners.rs` |
//! | a setting of `[http]` | a field after `with` in `server/src/http/limits.rs`; its type, re-exported by `server/src/http.rs`, `server/src/lib.rs` and this file; its text and its row, as for modules |
//! | a header of every response | `server/src/http/connections/connection.rs`, through which all responses pass, and `server/src/http/connections/manager.rs`, which writes the response to a refused connection |
//! | a command | a file in `cli/src/`; its arguments, its call and its line in the table in `cli/src/lib.rs` |
//!
//! # Crates
//!
//! A crate depends only on the ones above it; `deny.toml` keeps wasmtime in `sandbox`,
//! hyper in `server` and clap in `cli`.
//!
//! | crate | job |
//! |---|---|
//! | `common` | texts, files, limits and priorities, for the other crates |
//! | `state` | the relayer's state: versioned snapshots and their publisher |
//! | `sources` | sources of the state: configuration, state file, running relayer, sample |
//! | `modules` | the bundled components, built from `guest/` |
//! | `fleet` | fleets of hosts that serve the same state, on NATS |
//! | `oci` | modules in OCI registries: pulls, pushes and signatures |
//! | `sandbox` | loads modules and runs them |
//! | `conformance` | dialects, and tests that a module speaks them |
//! | `server` | connections, cache, mounts, swaps, reload and control |
//! | `cli` | the command `relayer-rest` |
//! | `hermes` | the API inside Hermes; a workspace of its own, because Hermes has 400 crates |

pub use relayer_rest_common::Position;
pub use relayer_rest_common::histogram::Times;
pub use relayer_rest_conformance as conformance;
#[cfg(feature = "fleet")]
pub use relayer_rest_fleet as fleet;
pub use relayer_rest_oci as oci;
#[cfg(feature = "control")]
pub use relayer_rest_server::control;
pub use relayer_rest_server::{
    AllowedHost, AllowedHostError, AllowedOrigin, BasePath, ConnectionStatus, ConnectionTally,
    CorsConfig, Exchange, ExchangeResponse, Handling, HttpLimits, ListenError, Listener,
    LiveLimits, LiveStatus, LiveTally, RequestObservation, RequestObserver, Server, ServerSettings,
    TlsError, UnixSocketError, cache, capsules, commands, config, registry, reload, response,
    tokens,
};

/// Modules: bundled components, and their sandbox.
pub mod module {
    pub use relayer_rest_modules::{
        BUNDLED_EXTENSIONS, BundledExtension, DEFAULT_MODULE, MODULE_1_13,
    };
    pub use relayer_rest_sandbox::*;
}

/// The relayer's state, and its sources.
pub mod state {
    pub use relayer_rest_sources::*;
    pub use relayer_rest_state::*;
}
