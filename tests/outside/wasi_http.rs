//! Are the published examples of `wasi:http` served unmodified?
//! Takes the registries of crates, npm and `PyPI`, node with npm, and python3 with venv.
//!
//! The examples of `wstd`, `wasip2` and `componentize-py` are those of their packages, and that of
//! Spin's SDK is in its README. `componentize-js` has none in its package, so the component here
//! follows its README.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use relayer_rest_tests::client::{self, Client};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};

use super::languages::run;

/// The versions of the packages. Their engines have these versions of WASI.
const CRATES: &str = "wasip2 = \"=2.0.1\"\nwstd = \"=0.6.8\"\n";
/// The last version of Spin's SDK with `wasi:http` 0.2: the next one has 0.3.
const SPIN: &str = "anyhow = \"1\"\nspin-sdk = \"=5.2.0\"\n";
const COMPONENTIZE_JS: &str =
    "@bytecodealliance/componentize-js@0.23.0 @bytecodealliance/preview2-shim@0.25.0";
const COMPONENTIZE_PY: &str = "componentize-py==0.25.1";

const JAVASCRIPT: &str = r#"
addEventListener("fetch", (event) => event.respondWith(handle(event.request)));

async function handle(request) {
  if (request.method === "POST") {
    return new Response(await request.text(), { headers: { "content-type": "text/plain" } });
  }
  const url = new URL(request.url);
  return new Response(`${url.pathname}${url.search} in ${request.headers.get("accept-language")}`);
}
"#;

/// Creates a library with these dependencies, and returns its folder.
fn library(folder: &Path, dependencies: &str, code: &str) -> PathBuf {
    let library = folder.join("library");
    fs::create_dir_all(library.join("src")).unwrap();
    fs::write(library.join("src/lib.rs"), code).unwrap();
    let manifest = format!(
        "[package]\nname = \"library\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\n{dependencies}"
    );
    fs::write(library.join("Cargo.toml"), manifest).unwrap();
    library
}

/// Returns the folder of the package of a dependency of this library.
fn source(library: &Path, name: &str) -> PathBuf {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .current_dir(library)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let manifest = fs::read_to_string(library.join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"=")));
    let version = version.unwrap().trim_end_matches('"');
    let is_wanted = |package: &&serde_json::Value| {
        package["name"] == name && package["version"].as_str().unwrap().starts_with(version)
    };
    let packages = metadata["packages"].as_array().unwrap();
    let manifest = packages.iter().find(is_wanted).unwrap()["manifest_path"].as_str().unwrap();
    Path::new(manifest).parent().unwrap().to_owned()
}

/// Returns the folder of a crate's package, copied from the registry's.
fn package(folder: &Path, name: &str) -> PathBuf {
    let source = source(&library(folder, CRATES, ""), name);
    let copy = folder.join(name);
    run(folder, &format!("cp -r {} {}", source.display(), copy.display()));
    copy
}

/// Builds a package, and returns the folder of its components.
fn build(folder: &Path, package: &Path, what: &str) -> PathBuf {
    let target = folder.join("target");
    // The toolchain of this build, which the package may not choose.
    let build = format!(
        "{} build {what} --target wasm32-wasip2 --target-dir {}",
        env!("CARGO"),
        target.display()
    );
    run(package, &build);
    target.join("wasm32-wasip2/debug")
}

/// Builds an example in the package of a crate.
fn example(folder: &Path, crate_name: &str, example: &str) -> PathBuf {
    let built = build(folder, &package(folder, crate_name), &format!("--example {example}"));
    let file = built.join("examples").join(example);
    let component = file.with_extension("wasm");
    if component.exists() {
        component
    } else {
        // The name of a library has no hyphens.
        file.with_file_name(example.replace('-', "_")).with_extension("wasm")
    }
}

/// Mounts a component at `/ext/it`.
async fn serve(folder: &Path, component: &Path) -> Serving {
    let config = folder.join("relayer-rest.toml");
    let settings = format!(
        "[swap]\ntime = '1h'\n[[extension]]\nname = 'it'\nwasi = true\nmodule = '{}'\n\
         limits.time = '1min'\nlimits.queue-wait = '1min'\n",
        component.display()
    );
    fs::write(&config, settings).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    Program::new(&args).start().await
}

/// Checks that a path is served, the second time from the cache.
async fn check_cached(serving: &Serving, path: &str, status: u16, text: &str) {
    let runs = async || {
        let status = serving.control(&["status", "--json"]).await;
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        let mounts = status["mounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["mount"] == "/ext/it").unwrap();
        mount["module"]["runs"].as_u64().unwrap()
    };
    let path = format!("/ext/it{path}");
    let mut ran = Vec::new();
    for _ in 0..2 {
        let mut http = Client::http1(serving.address()).await;
        let response = http.request_with("GET", &path, &[("accept-language", "de")]).await;
        assert_eq!((response.status.as_u16(), response.text()), (status, text), "{path}");
        ran.push(runs().await);
    }
    assert_eq!(ran[0], ran[1], "{path}");
}

/// Checks that the body of a request comes back.
async fn check_echo(serving: &Serving, path: &str) {
    let request = format!(
        "POST /ext/it{path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"
    );
    let response = client::raw(serving.address(), request.as_bytes()).await;
    let is_echo = response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nhello");
    assert!(is_echo, "{response}");
}

#[tokio::test]
#[ignore = "needs the registry of crates"]
async fn the_examples_of_wstd_and_wasip2_are_served() {
    let folder = Folder::new();
    let wstd = serve(folder.as_path(), &example(folder.as_path(), "wstd", "http_server")).await;
    check_cached(&wstd, "/", 200, "Hello, wasi:http/proxy world!\n").await;
    // It waits for a second, by a clock that stands still.
    check_cached(&wstd, "/wait-response", 200, "slept for 0 millis\n").await;
    let stream = "stream started 0 millis ago\n".repeat(5);
    check_cached(&wstd, "/stream-body", 200, &stream).await;
    check_cached(&wstd, "/response-status", 500, "").await;
    check_echo(&wstd, "/echo").await;
    let mut http = Client::http1(wstd.address()).await;
    assert_eq!(http.get("/ext/it/response-fail").await.error_name(), "BadModuleResponse");

    let wasip2 = serve(folder.as_path(), &example(folder.as_path(), "wasip2", "http-proxy")).await;
    check_cached(&wasip2, "/", 200, "Hello, WASI!").await;
}

#[tokio::test]
#[ignore = "needs the registry of crates"]
async fn the_example_of_the_sdk_of_spin_is_served() {
    let folder = Folder::new();
    let here = folder.as_path();
    let readme = source(&library(here, SPIN, ""), "spin-sdk").join("README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, example) = readme.split_once("```rust\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let built = build(here, &library(here, SPIN, example), "--lib");
    let mut serving = serve(here, &built.join("library.wasm")).await;
    check_cached(&serving, "/a?b=c", 200, "Hello, Fermyon").await;
    // The header of Spin with the whole URL is not there.
    serving.logged("Handling request to None").await;
}

#[tokio::test]
#[ignore = "needs node 20 and npm, with the npm registry, and the registry of crates"]
async fn a_component_of_componentize_js_is_served() {
    let folder = Folder::new();
    let here = folder.as_path();
    fs::write(folder.join("package.json"), r#"{"private": true, "type": "module"}"#).unwrap();
    fs::write(folder.join("server.js"), JAVASCRIPT).unwrap();
    run(here, &format!("npm install --no-audit --no-fund {COMPONENTIZE_JS}"));
    // The interfaces, in the version that its engine has.
    let wit = package(here, "wasip2").join("wit");
    for file in fs::read_dir(wit.join("deps")).unwrap() {
        let file = file.unwrap().path();
        let text = fs::read_to_string(&file).unwrap().replace("0.2.12", "0.2.10");
        fs::write(file, text).unwrap();
    }
    let build = format!(
        "npx componentize-js server.js --wit {} --world-name wasi:http/proxy@0.2.10 --out server.wasm",
        wit.display()
    );
    run(here, &build);
    let serving = serve(here, &folder.join("server.wasm")).await;
    check_cached(&serving, "/a?b=c", 200, "/a?b=c in de").await;
    check_echo(&serving, "/").await;
}

#[tokio::test]
#[ignore = "needs python3 with venv, and PyPI"]
async fn the_example_of_componentize_py_is_served() {
    let folder = Folder::new();
    let here = folder.as_path();
    run(here, "python3 -m venv .venv");
    let pip = ".venv/bin/pip --quiet --disable-pip-version-check";
    run(here, &format!("{pip} install {COMPONENTIZE_PY}"));
    run(here, &format!("{pip} download --no-deps --no-binary :all: {COMPONENTIZE_PY}"));
    let source = COMPONENTIZE_PY.replace('-', "_").replace("==", "-");
    run(here, &format!("tar -xzf {source}.tar.gz"));
    run(here, &format!("cp {source}/examples/http/app.py ."));
    let build = format!(
        ".venv/bin/componentize-py -d {source}/wit -w wasi:http/proxy@0.2.0 componentize app -o http.wasm"
    );
    run(here, &build);
    let serving = serve(here, &folder.join("http.wasm")).await;
    check_cached(&serving, "/", 400, "").await;
    check_echo(&serving, "/echo").await;
}
