//! The folder of an author's package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use relayer_rest_tests::cargo::{cargo, root};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;

/// The target folder of a new package. It is kept for the next run of the tests.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("author");
    let folder = Folder::new();
    // The package of no test has this name: cargo would take the one's code for the other's.
    let package = folder.join("prepared");
    run(Command::new(Program::path()).arg("new").arg(&package));
    use_versions(&package);
    cargo(&package, &built, &["test", "--no-run"]);
    cargo(&package, &built, &["module"]);
    built
});

/// Prepares the folder of a new package: with the versions of the workspace's dependencies, which
/// were fetched before, and with these dependencies as they were built for all tests.
pub(super) fn prepare(package: &Path) {
    use_versions(package);
    run(Command::new("cp").arg("--archive").arg(&*BUILT).arg(package.join("target")));
}

fn use_versions(package: &Path) {
    fs::copy(root().join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
