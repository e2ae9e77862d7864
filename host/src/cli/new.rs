//! `relayer-rest new`: an author's first module.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failure, Ran, print};

#[derive(Args)]
pub(super) struct NewArgs {
    /// The folder to make; its name is the module's: small letters, digits and
    /// -, a letter first.
    folder: PathBuf,
}

/// What is in the folder. `NAME` and `MODULE` stand for the module's name and its
/// file.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("new/Cargo.toml")),
    (".cargo/config.toml", include_str!("new/config.toml")),
    ("src/lib.rs", include_str!("new/lib.rs")),
    ("README.md", include_str!("new/README.md")),
    (".gitignore", "/target\n"),
];

/// What is in it as it is: the toolchain, and what modules are written with.
const SDK: [(&str, &str); 13] = [
    ("rust-toolchain.toml", include_str!("../../../rust-toolchain.toml")),
    ("sdk/src/answer.rs", include_str!("../../../guest/sdk/src/answer.rs")),
    ("sdk/src/arena.rs", include_str!("../../../guest/sdk/src/arena.rs")),
    ("sdk/src/host.rs", include_str!("../../../guest/sdk/src/host.rs")),
    ("sdk/src/lib.rs", include_str!("../../../guest/sdk/src/lib.rs")),
    ("sdk/src/request.rs", include_str!("../../../guest/sdk/src/request.rs")),
    ("sdk/src/router.rs", include_str!("../../../guest/sdk/src/router.rs")),
    ("sdk/src/state.rs", include_str!("../../../guest/sdk/src/state.rs")),
    ("sdk/src/testing.rs", include_str!("../../../guest/sdk/src/testing.rs")),
    ("sdk/wit/handler.wit", include_str!("../../../wit/handler.wit")),
    ("sdk/wit/relayer.wit", include_str!("../../../wit/relayer.wit")),
    ("sdk/wit/types.wit", include_str!("../../../wit/types.wit")),
    ("sdk/wit/world.wit", include_str!("../../../wit/world.wit")),
];

const SDK_MANIFEST: &str = include_str!("../../../guest/sdk/Cargo.toml");

/// A folder cannot be made.
#[derive(Debug, thiserror::Error)]
enum NewError {
    #[error(
        "{0:?} is no name of a module: 1 to 64 small letters, digits and -, a letter first; give another folder"
    )]
    Name(String),
    #[error("{} is there already; give another folder, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("{}: cannot be written: {source}; choose a folder that can be", path.display())]
    Write { path: PathBuf, source: io::Error },
}

pub(super) fn run(args: &NewArgs) -> Result<Ran, Failure> {
    let folder = &args.folder;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !is_name(&name) {
        return Err(NewError::Name(name).into());
    }
    if folder.symlink_metadata().is_ok() {
        return Err(NewError::Exists(folder.clone()).into());
    }
    let module = format!("target/wasm32-unknown-unknown/release/{}.wasm", name.replace('-', "_"));
    for (file, text) in FILES {
        write(&folder.join(file), &text.replace("NAME", &name).replace("MODULE", &module))?;
    }
    for (file, text) in SDK {
        write(&folder.join(file), text)?;
    }
    write(&folder.join("sdk/Cargo.toml"), &alone(SDK_MANIFEST))?;
    let folder = folder.display();
    print(&[
        format!("made {folder}; what comes next:"),
        format!("  cd {folder}"),
        "  cargo test".to_owned(),
        "  cargo module".to_owned(),
        format!("  relayer-rest check --dialect any {module}"),
    ])?;
    Ok(Ran::Done)
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= 64
        && name.bytes().all(is_plain)
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| fs::write(path, text))
        .map_err(|source| NewError::Write { path: path.to_owned(), source })
}

/// A manifest that is of no workspace.
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
    use super::{SDK, SDK_MANIFEST, alone, is_name};
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_name_is_what_a_crate_and_an_extension_can_have() {
        for (name, is) in
            [("a", true), ("a-1", true), ("", false), ("1a", false), ("A", false), ("a b", false)]
        {
            assert_eq!(is_name(name), is, "{name}");
        }
    }

    #[test]
    fn all_that_there_is_of_the_sdk_is_given() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (folder, given) in [("guest/sdk/src", "sdk/src/"), ("wit", "sdk/wit/")] {
            for entry in fs::read_dir(root.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(SDK.iter().any(|(file, _)| *file == format!("{given}{name}")), "{name}");
            }
        }
        assert!(!alone(SDK_MANIFEST).contains("workspace"));
        assert!(alone(SDK_MANIFEST).contains("wit-bindgen"));
    }
}
