//! Does docs/modules.md match the contract, and does its module build?

use std::fs;
use std::path::Path;

use relayer_rest_host::conformance::{self, Reference};
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_tests::cargo::{cargo, root};
use relayer_rest_tests::server::{TestServer, engine};

use super::page::{Page, code};

fn page() -> Page {
    Page::read("docs/modules.md")
}

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn the_interfaces_match_the_contract() {
    let mut contract = Vec::new();
    for entry in fs::read_dir(root().join("wit")).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("interface ") {
                contract.push((name.trim_end_matches(" {").to_owned(), Vec::new()));
            } else if let Some((name, _)) = line.split_once(": func(") {
                contract.last_mut().unwrap().1.push(name.to_owned());
            }
        }
    }
    // Modules export this one.
    contract.retain(|(name, _)| name != "handler");
    contract.sort();
    let split = |cell: &str| cell.split(", ").map(|name| code(name).to_owned()).collect();
    let rows = page().table("## The contract");
    let mut documented: Vec<(String, Vec<String>)> =
        rows.iter().map(|row| (code(&row[0]).to_owned(), split(&row[1]))).collect();
    for (_, functions) in &mut documented {
        functions.retain(|name| !name.is_empty());
    }
    documented.sort();
    assert_eq!(documented, contract);
}

#[tokio::test]
#[ignore = "slow: builds a module with its dependencies"]
async fn the_module_builds_and_is_served() {
    let page = page();
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        fs::copy(root().join(file), folder.join(file)).unwrap();
    }
    copy(&root().join("wit"), &folder.join("wit"));
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), page.block("toml", "cdylib")).unwrap();
    fs::write(folder.join("src/lib.rs"), page.block("rust", "impl Guest")).unwrap();

    let target = "wasm32-unknown-unknown";
    cargo(folder, &folder.join("target"), &["build", "--release", "--target", target]);
    // The component is cargo's output, unchanged.
    let component = fs::read(folder.join(format!("target/{target}/release/hello.wasm"))).unwrap();
    let engine = engine(&Limits::default());
    let module = Module::from_bytes(&engine, "hello", &component).unwrap();
    let verdict = conformance::probe(&module, Reference::Any, None).await.unwrap();
    assert!(verdict.passes(), "{verdict:?}");
    let server = TestServer::builder().component(&component).start().await;
    let response = server.get("/a/path?query").await;
    assert_eq!(response.text(), "/a/path of ibc-0, ibc-1\n");
    assert_eq!(response.header("content-type"), "text/plain");
}
