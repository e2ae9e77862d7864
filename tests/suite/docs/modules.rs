//! Does docs/modules.md match the contract, and does its module build?

use std::collections::BTreeSet;
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

/// The SDKs in the order of the table, with the forms in which they define a name.
const SDKS: [(&str, &[&str]); 3] = [
    ("guest/sdk/src", &["fn {}(", "fn {}<", "struct {}", "macro_rules! {} "]),
    ("host/cli/templates/python/sdk", &["def {}(", "class {}:", "class {}("]),
    (
        "host/cli/templates/js/sdk",
        &["\n  {}(", "\n  static {}(", "\nexport function {}(", "class {} "],
    ),
];

/// Returns the source files of an SDK.
fn sources(folder: &str) -> String {
    let files = fs::read_dir(root().join(folder)).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Returns the names in code that one of these texts follows.
fn names_before<'a>(code: &'a str, texts: &[&str]) -> BTreeSet<&'a str> {
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = |(end, _)| code[..end].rsplit(|c| !is_in_name(c)).next().unwrap();
    let ends = texts.iter().flat_map(|text| code.match_indices(text));
    ends.map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns the names of the SDK that the code in a cell calls.
fn calls(cell: &str) -> BTreeSet<&str> {
    let names = names_before(cell, &["(", "!(", "::<", "::new("]);
    // Constructors of Rust and its standard library, and the handler.
    names.into_iter().filter(|name| !["new", "Some", "Err", "f"].contains(name)).collect()
}

fn snake_case(name: &str) -> String {
    let letter = |c: char| match c {
        'A'..='Z' => format!("_{}", c.to_ascii_lowercase()),
        _ => c.to_string(),
    };
    name.chars().map(letter).collect()
}

#[test]
fn the_sdks_have_the_names_of_the_table() {
    let rows = page().table("## Handlers");
    assert!(rows.len() > 50, "{}", rows.len());
    for (column, (folder, forms)) in (1..).zip(SDKS) {
        let sources = sources(folder);
        for name in rows.iter().flat_map(|row| calls(&row[column])) {
            let is_defined = forms.iter().any(|form| sources.contains(&form.replace("{}", name)));
            assert!(is_defined, "{name} is not in {folder}");
        }
    }
    // They differ only in their case.
    for row in &rows {
        let names = |column: usize| calls(&row[column]).into_iter().map(snake_case);
        assert!(names(1).eq(names(2)) && names(1).eq(names(3)), "{row:?}");
    }
}

#[test]
fn the_table_has_all_functions_of_the_host_and_the_query() {
    let read = |file| fs::read_to_string(root().join("guest/sdk/src").join(file)).unwrap();
    let (host, query) = (read("host.rs"), read("query.rs"));
    let (_, host) = host.split_once("pub trait Host {").unwrap();
    let (host, _) = host.split_once("\n}").unwrap();
    let functions = host.split("fn ").skip(1).chain(query.split("pub fn ").skip(1));
    let rows = page().table("## Handlers");
    let table: BTreeSet<_> = rows.iter().flat_map(|row| calls(&row[1])).collect();
    for function in functions {
        let name = function.split(['(', '<']).next().unwrap();
        assert!(table.contains(name), "{name} is not in the table");
    }
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
