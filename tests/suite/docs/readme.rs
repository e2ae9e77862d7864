//! Does README.md match the behaviour?

use std::fs;
use std::path::Path;
use std::process::Command;

use relayer_rest_host::config::Config;
use relayer_rest_host::conformance::{self, Dialect};
use relayer_rest_host::module::{BUNDLED_EXTENSIONS, Limits, Module};
use relayer_rest_tests::server::{TestServer, engine};

const README: &str = include_str!("../../../README.md");

/// Returns the code blocks in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    README.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[tokio::test]
async fn the_examples_of_the_api_are_what_is_answered() {
    let server = TestServer::of_sample().await;
    let mut client = server.connect().await;
    let mut examples = 0;
    for block in blocks("console") {
        for example in block.split("$ curl http://127.0.0.1:3000").skip(1) {
            let (path, body) = example.trim_end().split_once('\n').unwrap();
            assert_eq!(client.get(path).await.text(), body);
            examples += 1;
        }
    }
    assert_eq!(examples, 5);
}

#[test]
fn the_settings_are_the_defaults() {
    let settings = blocks("toml").into_iter().find(|block| block.contains("[module.limits]"));
    assert_eq!(Config::parse(settings.unwrap()).unwrap(), Config::default());
}

#[test]
fn the_extension_is_valid() {
    let settings = blocks("toml").into_iter().find(|block| block.contains("[[extension]]"));
    let config = Config::parse(settings.unwrap()).unwrap();
    assert_eq!(config.extension[0].path().as_str(), "/ext/hello");
}

#[test]
fn the_extensions_that_come_along_are_named() {
    let settings = blocks("toml").into_iter().find(|block| block.starts_with("extension = ["));
    let config = Config::parse(settings.unwrap()).unwrap();
    let named: Vec<_> = config.extension.iter().map(|extension| extension.name.as_str()).collect();
    assert_eq!(named, BUNDLED_EXTENSIONS.map(|included| included.name));
}

#[tokio::test]
async fn the_module_builds_and_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = blocks("toml").into_iter().find(|block| block.contains("cdylib")).unwrap();
    let source = blocks("rust").into_iter().find(|block| block.contains("impl Guest")).unwrap();
    for (from, to) in [("Cargo.lock", "Cargo.lock"), ("rust-toolchain.toml", "rust-toolchain.toml")]
    {
        fs::copy(root.join(from), folder.path().join(to)).unwrap();
    }
    fs::create_dir_all(folder.path().join("src")).unwrap();
    fs::create_dir_all(folder.path().join("wit")).unwrap();
    for entry in fs::read_dir(root.join("wit")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join("wit").join(entry.file_name())).unwrap();
    }
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.path().join("src/lib.rs"), source).unwrap();

    let target = "wasm32-unknown-unknown";
    let output = Command::new(env!("CARGO"))
        // Offline: the dependencies were fetched for the workspace, in these versions.
        .args(["build", "--offline", "--release", "--target", target])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let module = folder.path().join(format!("target/{target}/release/hello.wasm"));
    // The component is cargo's output, unchanged.
    let component = fs::read(module).unwrap();
    let engine = engine(&Limits::default());
    let module = Module::from_bytes(&engine, "hello", &component).unwrap();
    let verdict = conformance::examine(&module, Dialect::Any, None).await;
    assert!(verdict.passes(), "{verdict:?}");
    let server = TestServer::of_component(&component, &Limits::default()).await;
    let answer = server.get("/a/path?query").await;
    assert_eq!(answer.text(), "/a/path of ibc-0, ibc-1\n");
    assert_eq!(answer.header("content-type"), "text/plain");
}
