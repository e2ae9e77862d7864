//! Loads modules and runs them. The only part that depends on wasmtime.
//!
//! A module is a component of the world `api-module` in `wit/`, or of `wasi:http`. Each
//! request is handled by a fresh instance, which sees the request and one snapshot of the relayer's state,
//! and nothing else: no clock, no randomness, no files, even if it may import WASI.
//!
//! | file | job |
//! |---|---|
//! | `limits.rs` | the limits of modules |
//! | `engine.rs` | the engine, and the pool of instances |
//! | `options.rs` | the options of an engine |
//! | `engine_config.rs` | the engine's configuration, derived from the limits |
//! | `admission.rs` | admits runs, lets them wait, or rejects them |
//! | `compiled.rs` | obtains compiled code: from the cache, or from the compiler |
//! | `compiler.rs` | the compiler process |
//! | `artefact.rs` | compiled code before it is loaded |
//! | `code_cache.rs` | compiled code on disk, verified |
//! | `address_space.rs` | the address space that memories reserve |
//! | `epoch_ticker.rs` | interrupts guests that run long |
//! | `contract.rs` | the names in the contract |
//! | `grants.rs` | the interfaces that a mount's modules may import |
//! | `header_grants.rs` | the response headers beyond the mount that they may set |
//! | `componentize.rs` | encodes core modules as components |
//! | `module.rs` | loads and checks modules |
//! | `handler.rs` | the handlers that components export |
//! | `openapi.rs` | the routes that a module declares |
//! | `cost.rs` | the cost of creating an instance, read from its component |
//! | `load_error.rs` | the reasons that a module cannot be loaded, with hints |
//! | `published.rs` | a component as its author publishes it |
//! | `world.rs` | the imports and exports of a component, before it is compiled |
//! | `import_check.rs` | checks them against the contract |
//! | `request.rs` | a request to a module |
//! | `request_headers.rs` | the request headers that components of `wasi:http` see |
//! | `capsule.rs`, `capsule/` | files with the inputs of a run, and its replay |
//! | `debug_output.rs` | core dumps and profiles of runs |
//! | `outcome.rs`, `octets.rs` | the outcome of a run, and its bytes, as JSON |
//! | `run_record.rs` | records of runs, for capsules |
//! | `run_permit.rs` | runs one request: its permit, its instance and its time |
//! | `call_error.rs` | the reasons that a run has no response |
//! | `guest_time.rs` | the processor time of guests, and their turns |
//! | `socket_turn.rs` | the turns of guests on the thread of a socket, which serves its sockets between them |
//! | `socket_steps.rs` | the first steps of a guest, on that thread |
//! | `slow_guest_pool.rs` | threads for guests that run for longer than a tick |
//! | `slow_targets.rs` | the targets whose guests start on those threads |
//! | `long_steps.rs` | the modules whose guests do, because they keep a thread for long |
//! | `info.rs` | the part of a module that its instances need |
//! | `store.rs` | the data of an instance's store |
//! | `instance.rs` | one instance: its creation, and calls of its handler |
//! | `response.rs` | validates a module's response |
//! | `set_cookie.rs` | confines a module's cookies to its mount |
//! | `guest_log.rs` | the log lines of an instance, within bounds |
//! | `limiter.rs` | the memory and tables of an instance |
//! | `stats.rs` | counts runs and failures of a module |
//! | `trap.rs` | traps, by their kinds |
//! | `backtrace.rs` | describes the location of a trap |
//! | `source_map.rs` | the source locations of a component's code |
//! | `host_functions.rs` | the contract's host functions |
//! | `wasi.rs`, `wasi_functions.rs`, `wasi_interfaces.rs` | WASI, if a mount has it |
//! | `wasi_http.rs` | `wasi:http`, if a mount has WASI |
//! | `read_set.rs` | the data that an instance can read, and the record of its reads |
//! | `verify.rs` | checks that slots are reset between requests |
//! | `reused.rs` | an instance for many requests, for benchmarks |
//! | `wire.rs` | the contract's types, as they cross to a module |

mod address_space;
mod admission;
mod artefact;
mod backtrace;
mod call_error;
mod capsule;
mod code_cache;
mod compiled;
mod compiler;
mod componentize;
mod contract;
mod cost;
mod debug_output;
mod engine;
mod engine_config;
mod epoch_ticker;
mod grants;
mod guest_log;
mod guest_time;
mod handler;
mod header_grants;
mod host_functions;
mod import_check;
mod info;
mod instance;
mod limiter;
mod limits;
mod load_error;
mod long_steps;
mod module;
mod octets;
mod openapi;
mod options;
mod outcome;
mod published;
mod read_set;
mod request;
mod request_headers;
mod response;
mod reused;
mod run_permit;
mod run_record;
mod set_cookie;
mod slow_guest_pool;
mod slow_targets;
mod socket_steps;
mod socket_turn;
mod source_map;
mod stats;
mod store;
mod trap;
mod verify;
mod wasi;
mod wasi_functions;
mod wasi_http;
mod wasi_interfaces;
mod wire;
mod world;

pub use call_error::CallError;
pub use capsule::{Capsule, CapsuleError, MAX_CAPSULE_SIZE, Redaction, Replay};
pub use code_cache::{CodeCache, CodeCacheError};
pub use compiler::{Compiler, compile};
pub use componentize::MAX_COMPONENT_SIZE;
pub use contract::{CONTRACT_PACKAGE, CONTRACT_VERSION, WASMTIME_VERSION};
pub use cost::InstanceCost;
pub use debug_output::DebugOutput;
pub use engine::{Engine, EngineError, EngineLoad};
pub use grants::{Grants, UnknownGrant};
pub use header_grants::{HeaderGrantError, HeaderGrants};
pub use import_check::ForbiddenImport;
pub use limits::Limits;
pub use load_error::LoadError;
pub use module::{API, Module};
pub use openapi::{OPERATIONS, OpenApi, Route};
pub use options::EngineOptions;
pub use outcome::Outcome;
pub use published::PublishedComponent;
pub use read_set::{ReadSet, ReadValue, StateValue};
pub use relayer_rest_common::{Digest, DigestError};
pub use request::GuestRequest;
pub use request_headers::{RequestHeaders, RequestHeadersError, is_id, visible_headers};
pub use response::InvalidResponse;
#[doc(hidden)]
pub use reused::ReusedInstance;
pub use run_permit::{GuestResponse, RunPermit};
pub use run_record::{Recorder, Run, RunRecord, RunRecorder};
pub use set_cookie::CookieError;
pub use stats::{Failures, ModuleStats};
pub use trap::{TrapKind, Trapped};
pub use verify::ResetStatus;
