//! Builds of modules, as their authors make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs cargo in a folder. What it needs was fetched for the workspace, whose
/// versions it gets.
pub fn cargo(folder: &Path, target: &Path, args: &[&str]) {
    // The one that runs this, or that which is found: it chooses the toolchain.
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

/// The module in `tests/guests/wasi`, which tries what WASI has.
#[must_use]
pub fn wasi_guest() -> &'static [u8] {
    static GUEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let target = root().join("target/guests");
        let args = ["build", "--release", "--target", "wasm32-wasip2", "--package"];
        cargo(&root(), &target, &[&args[..], &["relayer-rest-wasi-guest"]].concat());
        fs::read(target.join("wasm32-wasip2/release/relayer_rest_wasi_guest.wasm")).unwrap()
    });
    &GUEST
}
