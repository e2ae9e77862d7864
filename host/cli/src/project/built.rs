//! Finds the component that the last build for a server has written, for commands that are given
//! the folder of a module instead of its file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use relayer_rest_server::registry::ModuleLocation;
use serde::Deserialize;

use super::{Builder, CARGO_MODULE, Project, ProjectError, TARGET, only_module};

/// A folder has no component.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuiltError {
    #[error("module {}: a folder without Cargo.toml, package.json or build.py; name a file, or the folder of a module", .0.display())]
    Language(PathBuf),
    #[error("module {}: not built; run `{command}` in this folder", folder.display())]
    NotBuilt { folder: PathBuf, command: &'static str },
    #[error("module {}: more than one *.wasm; name one of them", .0.display())]
    Modules(PathBuf),
    #[error("module {}: cargo metadata fails; correct the package, or name a file", .0.display())]
    Metadata(PathBuf),
    #[error(transparent)]
    Project(ProjectError),
}

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Returns the location of a module: of its component, if a folder with its sources is given.
pub(crate) fn locate(location: &ModuleLocation) -> Result<ModuleLocation, BuiltError> {
    match location.file() {
        Some(folder) if folder.is_dir() => built(folder).map(ModuleLocation::File),
        _ => Ok(location.clone()),
    }
}

/// Returns the component that a folder's last build for a server has written.
fn built(folder: &Path) -> Result<PathBuf, BuiltError> {
    let project =
        Project::find(folder, None, None).map_err(|_| BuiltError::Language(folder.to_owned()))?;
    let (module, command) = match project.builder {
        Builder::Cargo => (Some(output_of_cargo(folder)?), CARGO_MODULE),
        Builder::Npm => (only_one(folder)?, "npm run build"),
        Builder::Python | Builder::Command(_) => (only_one(folder)?, "python3 build.py"),
    };
    let not_built = || BuiltError::NotBuilt { folder: folder.to_owned(), command };
    module.filter(|module| module.is_file()).ok_or_else(not_built)
}

fn only_one(folder: &Path) -> Result<Option<PathBuf>, BuiltError> {
    match only_module(folder) {
        Ok(module) => Ok(Some(module)),
        Err(ProjectError::Modules(folder)) => Err(BuiltError::Modules(folder)),
        Err(_) => Ok(None),
    }
}

/// Returns the file that `cargo module` writes, below the target folder of the package.
fn output_of_cargo(folder: &Path) -> Result<PathBuf, BuiltError> {
    let metadata = metadata(folder).ok_or_else(|| BuiltError::Metadata(folder.to_owned()))?;
    let here = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let manifest = here.join("Cargo.toml");
    let package = metadata.packages.iter().find(|package| package.manifest_path == manifest);
    let mut targets = package.into_iter().flat_map(|package| &package.targets);
    let cdylib = targets.find(|target| target.kind.iter().any(|kind| kind == "cdylib"));
    let no_cdylib = || BuiltError::Project(ProjectError::NoCdylib(folder.to_owned()));
    let name = cdylib.ok_or_else(no_cdylib)?.name.replace('-', "_");
    let file = format!("{TARGET}/release/{name}.wasm");
    let module = metadata.target_directory.join(file);
    // As short as its author would write it.
    Ok(match module.strip_prefix(&here) {
        Ok(module) if folder == Path::new(".") => module.to_owned(),
        Ok(module) => folder.join(module),
        Err(_) => module,
    })
}

fn metadata(folder: &Path) -> Option<Metadata> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(folder);
    let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success())
}
