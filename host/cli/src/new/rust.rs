//! The template of modules in Rust. Cargo is the only build tool.

use super::{DOCUMENT, REQUESTS, Template, as_is, wit};

/// The files of the SDK.
const SDK: [(&str, &str); 15] = [
    ("rust-toolchain.toml", include_str!("../../templates/rust/rust-toolchain.toml")),
    ("sdk/src/response.rs", include_str!("../../sdk/response.rs")),
    ("sdk/src/arena.rs", include_str!("../../sdk/arena.rs")),
    ("sdk/src/capsule.rs", include_str!("../../sdk/capsule.rs")),
    ("sdk/src/failure.rs", include_str!("../../sdk/failure.rs")),
    ("sdk/src/host.rs", include_str!("../../sdk/host.rs")),
    ("sdk/src/lib.rs", include_str!("../../sdk/lib.rs")),
    ("sdk/src/openapi.rs", include_str!("../../sdk/openapi.rs")),
    ("sdk/src/parameter.rs", include_str!("../../sdk/parameter.rs")),
    ("sdk/src/query.rs", include_str!("../../sdk/query.rs")),
    ("sdk/src/request.rs", include_str!("../../sdk/request.rs")),
    ("sdk/src/router.rs", include_str!("../../sdk/router.rs")),
    ("sdk/src/state.rs", include_str!("../../sdk/state.rs")),
    ("sdk/src/telemetry.rs", include_str!("../../sdk/telemetry.rs")),
    ("sdk/src/testing.rs", include_str!("../../sdk/testing.rs")),
];

const SDK_MANIFEST: &str = include_str!("../../sdk.toml");

pub(super) fn template(name: &str) -> Template {
    let manifest = ("sdk/Cargo.toml".to_owned(), alone(SDK_MANIFEST));
    Template {
        module: format!("target/wasm32-unknown-unknown/release/{}.wasm", name.replace('-', "_")),
        files: &[
            ("Cargo.toml", include_str!("../../templates/rust/manifest.toml")),
            (".cargo/config.toml", include_str!("../../templates/rust/config.toml")),
            ("openapi.json", DOCUMENT),
            ("src/lib.rs", include_str!("../../templates/rust/lib.rs")),
            ("requests.http", REQUESTS),
            ("README.md", include_str!("../../templates/rust/README.md")),
            (".gitignore", "/target\n"),
        ],
        as_is: as_is(&SDK).chain([manifest]).chain(wit("sdk/wit")).collect(),
        steps: &["cargo test", "cargo module"],
    }
}

/// Returns the SDK's manifest without references to the workspace.
fn alone(manifest: &str) -> String {
    let (manifest, _lints) = manifest.split_once("[lints]").unwrap_or((manifest, ""));
    manifest
        .replace("version.workspace = true\nedition", "version = \"VERSION\"\nedition")
        .replace("VERSION", env!("CARGO_PKG_VERSION"))
        .replace("edition.workspace = true", "edition = \"2024\"")
        .replace("rust-version.workspace = true\n", "")
        .replace("license.workspace = true", "license = \"Apache-2.0 OR MIT\"")
        .replace("publish.workspace = true", "publish = false")
}

#[cfg(test)]
mod tests {
    use super::{SDK, SDK_MANIFEST, alone};
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_template_contains_the_whole_sdk() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(SDK.iter().any(|(file, _)| *file == format!("sdk/src/{name}")), "{name}");
        }
        assert!(!alone(SDK_MANIFEST).contains("workspace"));
        let (_, toolchain) = SDK[0];
        let channel = toolchain.lines().nth(1).unwrap();
        assert!(include_str!("../../../../rust-toolchain.toml").contains(channel), "{channel}");
        assert!(alone(SDK_MANIFEST).contains("wit-bindgen"));
    }
}
