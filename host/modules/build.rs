//! Builds `guest/` for WebAssembly, in each dialect and with the bundled extensions,
//! converts the modules into components, and writes these to the folder from which
//! `src/lib.rs` embeds them. A package of this crate has no `guest/` next to it: it
//! contains the components, which `.ci/package` puts into `prebuilt/`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wit_component::ComponentEncoder;

/// A component that this crate can embed.
struct Component {
    file: &'static str,
    package: &'static str,
    /// The features of its package.
    features: &'static str,
    /// The feature of this crate that selects it; `None` if it is always embedded.
    selected_by: Option<&'static str>,
}

const COMPONENTS: [Component; 5] = [
    api("module.wasm", ""),
    api("module-1.13.wasm", "dialect-1-13"),
    extension("dashboard.wasm", "relayer-rest-dashboard", "CARGO_FEATURE_DASHBOARD"),
    extension("health.wasm", "relayer-rest-health", "CARGO_FEATURE_HEALTH"),
    extension("metrics.wasm", "relayer-rest-metrics", "CARGO_FEATURE_METRICS"),
];

const fn api(file: &'static str, features: &'static str) -> Component {
    Component { file, package: "relayer-rest-api", features, selected_by: None }
}

const fn extension(
    file: &'static str,
    package: &'static str,
    selected_by: &'static str,
) -> Component {
    Component { file, package, features: "", selected_by: Some(selected_by) }
}

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "module";

fn main() -> Result<(), Box<dyn Error>> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root =
        manifest.ancestors().nth(2).ok_or("the crate is two folders below the workspace's")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let is_selected = |component: &&Component| {
        component.selected_by.is_none_or(|feature| env::var_os(feature).is_some())
    };
    let selected = COMPONENTS.iter().filter(is_selected);
    if !root.join("guest/sdk").is_dir() {
        for Component { file, .. } in selected {
            let component = manifest.join("prebuilt").join(file);
            fs::copy(&component, out.join(file))
                .map_err(|error| format!("{}: {error}", component.display()))?;
        }
        return Ok(());
    }
    for input in [".cargo", "guest", "wit", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    // Above TARGET/PROFILE/build/PACKAGE/out, so that a build for one profile of the host
    // is reused for the next. Cargo locks a target folder, so the module needs its own.
    let target = out.ancestors().nth(4).unwrap_or(&out).join("module");
    for Component { file, package, features, .. } in selected {
        let module = build(root, &target, package, features)?;
        let component =
            ComponentEncoder::default().module(&fs::read(module)?)?.validate(true).encode()?;
        fs::write(out.join(file), component)?;
    }
    Ok(())
}

/// Builds a module, independently of the settings of the host's build.
fn build(
    root: &Path,
    target: &Path,
    package: &str,
    features: &str,
) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(root).args(["build", "--locked", "--package", package, "--lib"]);
    cargo.args(["--target", TARGET, "--profile", PROFILE, "--features", features]);
    cargo.arg("--target-dir").arg(target);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let of_the_host = name.starts_with("CARGO_FEATURE_") || name.starts_with("CARGO_CFG_");
        if of_the_host || HOST_ONLY.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status()?;
    if !status.success() {
        let message = format!(
            "the package {package} in guest/ does not build ({status}); \
             if the target is missing, `rustup target add {TARGET}` adds it"
        );
        return Err(message.into());
    }
    Ok(target.join(TARGET).join(PROFILE).join(package.replace('-', "_")).with_extension("wasm"))
}

/// Settings of the host's build that must not reach the module's.
const HOST_ONLY: [&str; 6] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
];
