//! Passes the commit that the command is built from to its version.

use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = of_package().or_else(of_checkout).unwrap_or_default();
    println!("cargo::rustc-env=RELAYER_REST_COMMIT={commit}");
}

/// Returns the commit of a package, which cargo has written into it.
fn of_package() -> Option<String> {
    let info = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = info.split_once("\"sha1\":")?;
    let commit = rest.split('"').nth(1)?;
    Some(commit.chars().take(12).collect())
}

/// Returns the commit of a checkout of this repository.
fn of_checkout() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    // The repository may be another one, which has this source in a folder.
    let prefix = git(&["rev-parse", "--show-prefix"])?;
    if prefix != "host/cli/" {
        return None;
    }
    let folder = git(&["rev-parse", "--absolute-git-dir"])?;
    // Each commit adds a line.
    let log = Path::new(&folder).join("logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}
