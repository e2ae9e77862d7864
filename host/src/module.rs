//! Modules: loading them, and asking them. The only part that knows wasmtime.
//!
//! A module is a component of the world `api-module` in `wit/`. Each request
//! is handled by a fresh instance, which sees the request and one snapshot of
//! the relayer's state, and nothing else: no clock, no randomness, no files; also
//! where it may import WASI.
//!
//! | file | job |
//! |---|---|
//! | `limits.rs` | what a module may use |
//! | `engine.rs` | the compiler and the pool that instances come from |
//! | `compiler.rs` | compiled code: from the cache, or from a process of its own |
//! | `artefact.rs` | compiled code before it is loaded |
//! | `code_cache.rs` | compiled code on disk, verified |
//! | `address_space.rs` | how much of it memories reserve |
//! | `epoch_ticker.rs` | the clock that lets go of guests that run long |
//! | `contract.rs` | the names in the contract |
//! | `grants.rs` | which of its interfaces a mount's modules may import |
//! | `header_grants.rs` | which response headers beyond the mount they may set |
//! | `componentize.rs` | from what a compiler leaves to a component |
//! | `load.rs` | from bytes to a module that can be asked, or why not |
//! | `cost.rs` | what creating an instance takes, read from its component |
//! | `load_error.rs` | why not, and what to do about it |
//! | `digest.rs` | the version of a component |
//! | `import_check.rs` | what a component asks for, against the contract |
//! | `call.rs` | one request: its place, its run, and its time |
//! | `guest_time.rs` | the processor time of a guest, and its turns |
//! | `slow_guest_pool.rs` | guests that run for longer than a tick |
//! | `slow_targets.rs` | which targets' guests start there |
//! | `instance.rs` | one instance: what it is given, and calling it |
//! | `response.rs` | what it answers, held against what is allowed |
//! | `set_cookie.rs` | confines its cookies to the mount |
//! | `guest_log.rs` | what it writes to the log, within bounds |
//! | `limiter.rs` | what an instance has of memory |
//! | `stats.rs` | how often a module was asked, and how often it failed |
//! | `host_functions.rs` | what an instance can call |
//! | `wasi.rs` | the same of WASI, where a mount says so |
//! | `read_set.rs` | what an instance can see, and the record of what it saw |
//! | `verify.rs` | checks that slots are reset between requests |
//! | `reused.rs` | an instance that is asked again and again, for benchmarks |
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

/// The module that is served when no other is given: `guest/`, built with
/// this crate.
pub const DEFAULT_MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module.wasm"));

/// The same API as version 1.13 of the relayer answers it.
pub const MODULE_1_13: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module-1.13.wasm"));

/// An extension that comes along.
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
    /// That of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        BUNDLED_EXTENSIONS.into_iter().find(|included| included.name == name)
    }

    /// What it may import.
    #[must_use]
    pub fn granted(&self) -> Grants {
        Grants::none().and(self.grants)
    }
}

/// The extensions that come along.
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
