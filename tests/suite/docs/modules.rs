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

/// Returns the source files of an SDK.
fn sdk(folder: &str) -> String {
    let files = fs::read_dir(root().join(folder)).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// Returns the names in code that are followed by one of these texts.
fn names_before<'a>(code: &'a str, after: &[&str]) -> BTreeSet<&'a str> {
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ends = after.iter().flat_map(|after| code.match_indices(after));
    let name = |(end, _): (usize, &str)| {
        let start = code[..end].rfind(|c| !is_in_name(c)).map_or(0, |at| at + 1);
        &code[start..end]
    };
    ends.map(name).filter(|name| !name.is_empty()).collect()
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
    let rust = sdk("guest/sdk/src");
    let python = sdk("host/cli/templates/python/sdk");
    let js = sdk("host/cli/templates/js/sdk");
    let rows = page().table("## Handlers");
    assert!(rows.len() > 50, "{}", rows.len());
    let mut named = BTreeSet::new();
    for row in rows.iter().filter(|row| !row[1].is_empty()) {
        let [_, in_rust, in_python, in_js] = &row[..] else { panic!("{row:?}") };
        // Handlers, variants and values of the example are not part of the SDK.
        let calls = |code, after: &[&str]| {
            let mut names = names_before(code, after);
            for not_named in ["f", "new", "Some", "Err"] {
                names.remove(not_named);
            }
            names
        };
        let [in_rust, in_python, in_js] = [
            calls(in_rust, &["(", "!(", "::<", "::new("]),
            calls(in_python, &["("]),
            calls(in_js, &["("]),
        ];
        for name in &in_rust {
            let forms = ["fn {}(", "fn {}<", "struct {}", "macro_rules! {} "];
            let is_there = forms.iter().any(|form| rust.contains(&form.replace("{}", name)));
            assert!(is_there, "{name} is not in the SDK for Rust");
        }
        for name in &in_python {
            let forms = ["def {}(", "class {}:", "class {}("];
            let is_there = forms.iter().any(|form| python.contains(&form.replace("{}", name)));
            assert!(is_there, "{name} is not in the SDK for Python");
        }
        for name in &in_js {
            let forms = ["\n  {}(", "\n  static {}(", "function {}(", "class {} "];
            let is_there = forms.iter().any(|form| js.contains(&form.replace("{}", name)));
            assert!(is_there, "{name} is not in the SDK for JavaScript");
        }
        // They differ only in their case.
        let snake = |names: &BTreeSet<&str>| -> BTreeSet<_> {
            names.iter().map(|name| snake_case(name)).collect()
        };
        let names = snake(&in_rust);
        assert_eq!(names, snake(&in_python), "{row:?}");
        assert_eq!(names, snake(&in_js), "{row:?}");
        named.extend(in_rust.into_iter().map(str::to_owned));
    }
    // All functions of a host, a request and parameters are in the table.
    let host = rust.split("pub trait Host {").nth(1).unwrap().split("\n}").next().unwrap();
    let request = fs::read_to_string(root().join("guest/sdk/src/query.rs")).unwrap();
    for name in names_before(
        &format!("{host}{}", request.replace("pub fn", "fn")),
        &["(&self", "<T>(&self"],
    ) {
        assert!(named.contains(name) || name == "values", "{name} is not in the table");
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
