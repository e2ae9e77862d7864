//! Builds the modules in `tests/guests`, which `src/cargo.rs` includes. They are built with
//! the crates and not by a test, because their dependencies take long.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of the modules, and their targets.
const GUESTS: [(&str, &str); 5] = [
    ("failing-guest", "wasm32-unknown-unknown"),
    ("http-guest", "wasm32-wasip2"),
    ("live-guest", "wasm32-unknown-unknown"),
    ("sdk-guest", "wasm32-unknown-unknown"),
    ("wasi-guest", "wasm32-wasip2"),
];
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
    for input in ["tests/guests", "guest/sdk", "wit", "Cargo.lock", "rust-toolchain.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = out.ancestors().nth(4).unwrap_or(&out).join("module");
    for (name, triple) in GUESTS {
        let module = build(&root, &target, &format!("relayer-rest-{name}"), triple)?;
        fs::copy(module, out.join(name).with_extension("wasm"))?;
    }
    Ok(())
}

fn build(
    root: &Path,
    target: &Path,
    package: &str,
    triple: &str,
) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(root).args(["build", "--locked", "--lib", "--package", package]);
    cargo.args(["--target", triple, "--profile", PROFILE, "--target-dir"]).arg(target);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let of_the_host = name.starts_with("CARGO_FEATURE_") || name.starts_with("CARGO_CFG_");
        if of_the_host || HOST_ONLY.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the package {package} does not build: {status}").into());
    }
    Ok(target.join(triple).join(PROFILE).join(package.replace('-', "_")).with_extension("wasm"))
}
