//! Loads modules and runs them. The only part that depends on wasmtime.
//!
//! A module is a component of the world `api-module` in `wit/`. Each request is handled
//! by a fresh instance, which sees the request and one snapshot of the relayer's state,
//! and nothing else: no clock, no randomness, no files, even if it may import WASI.
//!
//! | file | job |
//! |---|---|
//! | `limits.rs` | the limits of modules |
//! | `engine.rs` | the compiler, and the pool of instances |
//! | `compiler.rs` | compiled code, from the cache or a separate process |
//! | `artefact.rs` | compiled code before it is loaded |
//! | `code_cache.rs` | compiled code on disk, verified |
//! | `address_space.rs` | the address space that memories reserve |
//! | `epoch_ticker.rs` | interrupts guests that run long |
//! | `contract.rs` | the names in the contract |
//! | `grants.rs` | the interfaces that a mount's modules may import |
//! | `header_grants.rs` | the response headers beyond the mount that they may set |
//! | `componentize.rs` | encodes core modules as components |
//! | `load.rs` | loads and checks modules |
//! | `cost.rs` | the cost of creating an instance, read from its component |
//! | `load_error.rs` | the reasons that a module cannot be loaded, with hints |
//! | `digest.rs` | the version of a component |
//! | `import_check.rs` | checks imports and exports against the contract |
//! | `call.rs` | runs one request: its permit, its instance and its time |
//! | `guest_time.rs` | the processor time of guests, and their turns |
//! | `slow_guest_pool.rs` | threads for guests that run for longer than a tick |
//! | `slow_targets.rs` | the targets whose guests start on those threads |
//! | `instance.rs` | one instance: its store, its creation, and calls of its handler |
//! | `response.rs` | validates a module's response |
//! | `set_cookie.rs` | confines a module's cookies to its mount |
//! | `guest_log.rs` | the log lines of an instance, within bounds |
//! | `limiter.rs` | the memory and tables of an instance |
//! | `stats.rs` | counts runs and failures of a module |
//! | `host_functions.rs` | the contract's host functions |
//! | `wasi.rs` | WASI's host functions, if a mount has them |
//! | `read_set.rs` | the data that an instance can read, and the record of its reads |
//! | `verify.rs` | checks that slots are reset between requests |
//! | `reused.rs` | an instance for many requests, for benchmarks |
//! | `wire.rs` | the contract's types, as they cross to a module |

mod address_space;
mod artefact;
mod call;
mod code_cache;
mod compiler;
mod componentize;
mod contract;
mod cost;
mod digest;
mod engine;
mod epoch_ticker;
mod grants;
mod guest_log;
mod guest_time;
mod header_grants;
mod host_functions;
mod import_check;
mod instance;
mod limiter;
mod limits;
mod load;
mod load_error;
mod read_set;
mod response;
mod reused;
mod set_cookie;
mod slow_guest_pool;
mod slow_targets;
mod stats;
mod verify;
mod wasi;
mod wire;

pub use call::{CallError, GuestRequest, GuestResponse, RunPermit};
pub use code_cache::{CodeCache, CodeCacheError};
pub use compiler::{Compiler, compile};
pub use contract::{CONTRACT_PACKAGE, CONTRACT_VERSION};
pub use cost::InstanceCost;
pub use digest::{Digest, DigestError};
pub use engine::{Engine, EngineError, EngineOptions};
pub use grants::{Grants, UnknownGrant};
pub use header_grants::{HeaderGrantError, HeaderGrants};
pub use import_check::ForbiddenImport;
pub use limits::{LimitError, Limits};
pub(crate) use load::MAX_COMPONENT_SIZE;
pub use load::{API, Module};
pub use load_error::LoadError;
pub use read_set::ReadSet;
pub use response::InvalidResponse;
#[doc(hidden)]
pub use reused::ReusedInstance;
pub use set_cookie::CookieError;
pub use stats::Failures;
pub use verify::ResetStatus;

/// The module that is served by default: `guest/`, built with this crate.
pub const DEFAULT_MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module.wasm"));

/// The module that serves the API as version 1.13 of the relayer does.
pub const MODULE_1_13: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module-1.13.wasm"));

/// An extension that is bundled with this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundledExtension {
    /// Its name.
    pub name: &'static str,
    /// The component.
    pub component: &'static [u8],
    /// The interfaces of the contract that it needs.
    pub grants: &'static [&'static str],
}

impl BundledExtension {
    /// Returns the bundled extension with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        BUNDLED_EXTENSIONS.into_iter().find(|included| included.name == name)
    }

    /// Returns the interfaces that it may import.
    #[must_use]
    pub fn granted(&self) -> Grants {
        Grants::none().and(self.grants)
    }
}

/// The extensions that are bundled with this crate.
pub const BUNDLED_EXTENSIONS: [BundledExtension; 3] = [
    BundledExtension {
        name: "dashboard",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/dashboard.wasm")),
        grants: &["version", "chains", "state"],
    },
    BundledExtension {
        name: "health",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/health.wasm")),
        grants: &["chains", "state", "snapshot", "query"],
    },
    BundledExtension {
        name: "metrics",
        component: include_bytes!(concat!(env!("OUT_DIR"), "/metrics.wasm")),
        grants: &["version", "chains", "state", "snapshot"],
    },
];
