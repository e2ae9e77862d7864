//! Are all files of the host in its map, or in the table of their folder?

use std::fs;
use std::path::{Path, PathBuf};

use relayer_rest_tests::cargo::root;

/// Adds the Rust files in the source folders below a folder.
fn sources(folder: &Path, is_source: bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, is_source || path.ends_with("src"), found);
        } else if is_source && path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the names of files in a module's documentation.
fn names(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let doc = text.lines().filter(|line| line.starts_with("//!"));
    let spans = doc.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "rs"))
        .map(str::to_owned)
        .collect()
}

/// Returns the file with the table of a folder.
fn head(folder: &Path) -> PathBuf {
    if folder.ends_with("src") { folder.join("lib.rs") } else { folder.with_extension("rs") }
}

fn host() -> Vec<PathBuf> {
    let mut files = Vec::new();
    sources(&root().join("host"), false, &mut files);
    files
}

#[test]
fn the_map_names_only_files_that_exist() {
    let files = host();
    let names = names(&root().join("host/src/lib.rs"));
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        let exists = files.iter().any(|file| file.ends_with(&name)) || root().join(&name).exists();
        assert!(exists, "{name} does not exist");
    }
}

#[test]
fn each_file_is_in_the_map_or_in_a_table() {
    let map = names(&root().join("host/src/lib.rs"));
    for file in host() {
        // The roots of crates, unit tests, and the heads of folders, which have a table.
        let is_root = ["lib.rs", "main.rs", "tests.rs"].iter().any(|name| file.ends_with(name));
        if is_root || file.with_extension("").is_dir() {
            continue;
        }
        let folder = file.parent().unwrap();
        let table = names(&head(folder));
        let is_named = map.iter().chain(&table).any(|name| file.ends_with(name));
        assert!(is_named, "{} is in no table: write a line for it", file.display());
    }
}
