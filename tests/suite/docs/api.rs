//! Does docs/api.md have the responses and errors of the API?

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hyper::StatusCode;
use relayer_rest_tests::cargo::root;
use relayer_rest_tests::server::TestServer;

use super::page::{Page, code};

fn page() -> Page {
    Page::read("docs/api.md")
}

#[tokio::test]
async fn the_examples_are_the_responses_on_the_sample() {
    let page = page();
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let mut paths = Vec::new();
    for example in page.block("console", "$ curl").split("$ curl http://127.0.0.1:3000").skip(1) {
        let (path, body) = example.trim_end().split_once('\n').unwrap();
        assert_eq!(client.get(path).await.text(), body);
        paths.push(path.to_owned());
    }
    assert_eq!(paths, ["/version", "/chain/ibc-0", "/state", "/chain/foo"]);
}

#[tokio::test]
async fn the_paths_are_served() {
    let server = TestServer::start().await;
    for row in page().table("# The API") {
        let path = code(&row[0]).replace(":id", "ibc-0");
        assert_eq!(server.get(&path).await.status, 200, "{path}");
    }
}

/// Returns all source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the name of a status as the code has it: `404` is `NOT_FOUND`.
fn constant(status: &str) -> String {
    let reason = StatusCode::from_bytes(status.as_bytes()).unwrap().canonical_reason().unwrap();
    reason.to_uppercase().replace([' ', '-'], "_")
}

/// Compares with the source of `HostError`, which is private.
#[test]
fn the_errors_of_the_host_are_listed() {
    let mut files = Vec::new();
    sources(&root().join("host"), &mut files);
    let mut texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let text = texts.find(|text| text.contains("enum HostError {")).unwrap();
    let table = |function: &str| {
        let (_, table) = text.split_once(function).unwrap();
        table.split("}\n\n").next().unwrap().to_owned()
    };
    let functions = [
        "fn parts(&self)",
        "fn generation_parts(&self)",
        "fn extension_parts(&self)",
        "fn command_parts(",
    ];
    let errors: BTreeSet<_> = functions
        .map(table)
        .concat()
        .split("StatusCode::")
        .skip(1)
        .map(|error| {
            let (status, rest) = error.split_once(',').unwrap();
            (status.to_owned(), rest.split('"').nth(1).unwrap().to_owned())
        })
        .collect();
    let text = page().text;
    let rows = |start: &str| {
        let (_, host) = text.split_once(start).unwrap();
        let host = Page { path: PathBuf::new(), text: format!("\n# Host\n{host}") };
        host.table("# Host")
    };
    // These two are the module's.
    let is_of_the_host =
        |row: &Vec<String>| !["InvalidCommand", "ChainConfigNotFound"].contains(&code(&row[1]));
    let commands = rows("and a body, are").into_iter().filter(is_of_the_host);
    let listed: BTreeSet<_> = rows("These come from the host")
        .into_iter()
        .chain(commands)
        .map(|row| (constant(&row[0]), code(&row[1]).to_owned()))
        .collect();
    assert_eq!(listed, errors);
}

#[tokio::test]
async fn the_errors_of_the_module_are_as_listed() {
    let ready = TestServer::start().await;
    let unready = TestServer::builder().without_state().start().await;
    let mut sent = Vec::new();
    for (server, method, path) in [
        (&ready, "GET", "/chain/%ff"),
        (&ready, "GET", "/chain/none"),
        (&ready, "GET", "/none"),
        (&ready, "POST", "/chains"),
        (&unready, "GET", "/state"),
    ] {
        let response = server.connect().await.request(method, path).await;
        let body: serde_json::Value = serde_json::from_str(response.text()).unwrap();
        let name = body["result"]["name"].as_str().unwrap().to_owned();
        sent.push((response.status.as_str().to_owned(), name));
    }
    let rows = page().table("## Errors");
    let listed: Vec<_> =
        rows.iter().map(|row| (row[0].clone(), code(&row[1]).to_owned())).collect();
    assert_eq!(listed, sent);
}
