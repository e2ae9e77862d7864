//! The harness that the integration tests share.
//!
//! | file | job |
//! |---|---|
//! | `server.rs` | a server in this process, on a free port |
//! | `client.rs` | one connection to it, HTTP/1.1 or HTTP/2, or raw bytes |
//! | `events.rs` | the events of a stream |
//! | `http2.rs` | hand-made HTTP/2 frames, which no library would send |
//! | `cargo.rs` | builds of modules |
//! | `sdk_cases.rs` | requests to the modules in `tests/guests/sdk` |
//! | `failures.rs` | random failures of the module in `tests/guests/failing` |
//! | `program.rs` | the command, as a process |
//! | `terminal.rs` | the command in a terminal |
//! | `virtual_machine.rs` | the command in a machine with another processor |
//! | `namespace.rs` | namespaces of the network and of mounts |
//! | `process.rs` | processes of the system: children, priorities and signals |
//! | `folder.rs` | a temporary folder |
//! | `grafana.rs` | the queries of the Grafana dashboard |
//! | `wait.rs` | waiting for conditions, with one deadline |
//! | `collector.rs` | an OpenTelemetry collector |
//! | `oci_registry.rs` | an OCI registry, healthy or hostile |
//! | `nats.rs` | a server of NATS, which tests can kill |
//! | `nats_accounts.rs` | accounts and credentials for NATS, as `nsc` creates them |
//! | `relayer.rs` | a scripted relayer, healthy or faulty |
//! | `bare_hyper.rs` | servers that are bare hyper, as baselines |
//! | `heap.rs` | a counting allocator |
//! | `measure.rs` | quantiles and memory use, for benchmarks |
//! | `component.rs` | components with unusual behaviour |
//! | `component/` | hostile components, and ones with secrets or many parts or entries |
//! | `watcher.rs` | a client that fails if other clients disturb it |
//! | `steady_clients.rs` | clients that send requests while servers take turns |
//! | `load.rs` | requests at the highest rate that the server sustains |
//! | `fuzz.rs` | the fuzz targets |
//! | `bin/soak.rs` | a soak test: all of this at once, for any length of time |
//!
//! Nothing here uses a fixed port. Only the scripted relayer sleeps for a fixed time, if
//! a test makes it slow. A failure in a test's own set-up panics at once.
#![expect(clippy::missing_panics_doc, reason = "a harness fails by panicking")]

pub mod bare_hyper;
pub mod cargo;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod component;
pub mod events;
pub mod failures;
pub mod folder;
pub mod fuzz;
pub mod grafana;
pub mod heap;
pub mod http2;
pub mod load;
pub mod measure;
pub mod namespace;
pub mod nats;
pub mod nats_accounts;
pub mod oci_registry;
pub mod process;
pub mod program;
pub mod relayer;
pub mod sdk_cases;
pub mod server;
pub mod steady_clients;
pub mod terminal;
pub mod virtual_machine;
pub mod wait;
pub mod watcher;
