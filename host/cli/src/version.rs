//! The version of the command, with its commit, the contract and wasmtime.

use std::sync::LazyLock;

use relayer_rest_sandbox::{CONTRACT_PACKAGE, CONTRACT_VERSION, WASMTIME_VERSION};

/// The version, and its commit if the command was built from one.
pub(super) static LONG: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    let commit = match env!("RELAYER_REST_COMMIT") {
        "" => String::new(),
        commit => format!(" ({commit})"),
    };
    format!(
        "{version}{commit}\ncontract {CONTRACT_PACKAGE}@{CONTRACT_VERSION}\nwasmtime {WASMTIME_VERSION}"
    )
});
