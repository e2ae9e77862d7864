//! Builds of modules, with the commands that module authors use.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs cargo in a folder, offline: the workspace's dependencies were fetched before, and
/// the folder uses the same versions.
pub fn cargo(folder: &Path, target: &Path, args: &[&str]) {
    // The cargo that runs this test, or else the one on the path: it chooses the
    // toolchain.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(args)
        .arg("--offline")
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The module in `tests/guests/failing`, which fails as its requests say.
pub const FAILING_GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/failing-guest.wasm"));

/// The module in `tests/guests/live`, which fails for some states.
pub const LIVE_GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/live-guest.wasm"));

/// The module in `tests/guests/sdk`, which returns the parts of its requests.
pub const SDK_GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sdk-guest.wasm"));

/// The module in `tests/guests/wasi`, which tries out WASI's functions.
pub const WASI_GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wasi-guest.wasm"));

/// The component in `tests/guests/http`, which tries out `wasi:http`.
pub const HTTP_GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/http-guest.wasm"));
