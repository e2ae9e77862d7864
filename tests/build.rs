//! Builds `tests/guests/wasi` for WASI, which `src/cargo.rs` includes. It is built with
//! the crates and not by a test, because its dependencies take long.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PACKAGE: &str = "relayer-rest-wasi-guest";
const TARGET: &str = "wasm32-wasip2";
/// The profile and the target folder are those of `host/modules/build.rs`: macros are
/// built once for both.
const PROFILE: &str = "module";

/// Settings of the tests' build that must not reach the guest's.
const HOST_ONLY: [&str; 6] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    for input in ["tests/guests/wasi", "guest/sdk", "wit", "Cargo.lock", "rust-toolchain.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = out.ancestors().nth(4).unwrap_or(&out).join("module");
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(&root).args(["build", "--locked", "--package", PACKAGE]);
    cargo.args(["--target", TARGET, "--profile", PROFILE, "--target-dir"]).arg(&target);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let of_the_host = name.starts_with("CARGO_FEATURE_") || name.starts_with("CARGO_CFG_");
        if of_the_host || HOST_ONLY.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the package {PACKAGE} does not build: {status}").into());
    }
    let guest = target.join(TARGET).join(PROFILE).join("relayer_rest_wasi_guest.wasm");
    fs::copy(guest, out.join("wasi-guest.wasm"))?;
    Ok(())
}
