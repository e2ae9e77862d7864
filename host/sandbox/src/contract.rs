//! The names in the contract, which `wit/` defines.

/// The contract's package.
pub const CONTRACT_PACKAGE: &str = "relayer:rest";

/// The contract's version. A component built for another version is accepted if the two
/// are compatible by semantic versioning.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// The version of wasmtime that runs the modules.
pub const WASMTIME_VERSION: &str = "50.0.1";

/// The interface that a module exports, and its function.
pub(super) const HANDLER: (&str, &str) = ("handler", "handle");

/// The interface of types, which has no functions.
pub(super) const TYPES: &str = "types";

/// The interface in which a module reports the cause of its trap.
pub(super) const FAILURE: &str = "failure";

/// The interfaces that a module may import, with their functions.
pub(super) const IMPORTS: [(&str, &[&str]); 12] = [
    (TYPES, &[]),
    ("version", &["components"]),
    ("chains", &["ids", "config"]),
    ("state", &["current"]),
    ("snapshot", &["changed", "unconfirmed-since", "sources"]),
    ("telemetry", &["families", "family", "scraped"]),
    ("commands", &["clear-packets"]),
    ("request", &["header"]),
    ("query", &["get"]),
    ("mount", &["path"]),
    ("log", &["log"]),
    (FAILURE, &["report"]),
];

/// Returns an interface's full name: `relayer:rest/state@0.1.0`.
pub(super) fn interface(name: &str) -> String {
    format!("{CONTRACT_PACKAGE}/{name}@{CONTRACT_VERSION}")
}
