//! Does the server describe the routes of its modules, and count requests by route?

use std::collections::BTreeSet;

use relayer_rest_host::conformance::Dialect;
use relayer_rest_host::module::MODULE_1_13;
use relayer_rest_host::registry::{Candidate, Origin, Rejection, SwapOutcome};
use relayer_rest_tests::client::Response;
use relayer_rest_tests::component;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::server::{TestServer, candidate, engine, extension, patient};
use serde_json::{Value, json};

const PATH: &str = "/openapi.json";

/// Returns a module with an OpenAPI document.
fn module(document: &Value) -> Vec<u8> {
    let component = component::with_response(204, "a", b"b");
    component::with_document(component, document.to_string().as_bytes())
}

fn document_of(response: &Response) -> Value {
    serde_json::from_str(response.text()).unwrap()
}

fn paths(document: &Value) -> Vec<&str> {
    document["paths"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// Adds the references of a value.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_documents_of_all_modules_are_merged() {
    let folder = Folder::new();
    let extensions =
        "[[extension]]\nname = 'health'\n[[extension]]\nname = 'dashboard'\nmount = '/d'\n";
    let config = folder.write("c.toml", extensions);
    let serving = Program::server().args(["--config", &config]).start().await;
    let document = document_of(&serving.connect().await.get(PATH).await);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["title"], "The REST API of a relayer");
    let found = paths(&document);
    for path in
        ["/version", "/chain/{id}", "/ext/health", "/ext/health/readyz/chain/{id}", "/d/data"]
    {
        assert!(found.contains(&path), "{path}: {found:?}");
    }
    assert_eq!(document["paths"]["/d/data"]["get"]["tags"], json!(["dashboard"]));
    // Both the API and the dashboard have a schema of this name.
    let schema = |name: &str| !document["components"]["schemas"][name].is_null();
    assert!(schema("Error") && schema("dashboard.Error") && schema("Chain"));
    let mut all = BTreeSet::new();
    references(&document, &mut all);
    assert!(all.len() > 5, "{all:?}");
    for reference in all {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for operations in document["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            let default = &operation["responses"]["default"]["$ref"];
            assert_eq!(default, "#/components/responses/HostError");
        }
    }
}

#[tokio::test]
async fn clients_can_cache_the_document_until_a_module_is_replaced() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let first = client.get(PATH).await;
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.header("cache-control"), "no-cache");
    let etag = first.header("etag").to_owned();
    let same = [("if-none-match", &*etag)];
    let not_modified = client.request_with("GET", PATH, &same).await;
    assert_eq!((not_modified.status.as_u16(), not_modified.text()), (304, ""));
    let head = client.request("HEAD", PATH).await;
    let length = first.body.len().to_string();
    assert_eq!((head.header("content-length"), head.text()), (&*length, ""));
    assert_eq!(client.request("POST", PATH).await.status, 404, "it is the module's");

    let new = Candidate { dialect: Some(Dialect::V1_13), ..candidate(MODULE_1_13.to_vec()) };
    let report = server.swap_as(new).await;
    assert!(report.is_accepted(), "{report:?}");
    // The first connection may have been idle for too long.
    let changed = server.connect().await.request_with("GET", PATH, &same).await;
    assert_eq!(changed.status, 200);
    let document = document_of(&changed);
    assert!(paths(&document).contains(&"/clear_packets"));
    assert_ne!(changed.header("etag"), etag);
}

/// Names may occur in several modules, and each keeps its own.
#[tokio::test]
async fn the_components_of_extensions_are_kept_apart() {
    let with = |kind: &str| {
        json!({
            "openapi": "3.1.0",
            "paths": {"/": {"get": {
                "operationId": "get",
                "responses": {"200": {"$ref": "#/components/responses/A"}},
            }}},
            "components": {"responses": {"A": {"description": kind}}},
        })
    };
    let engine = engine(&patient());
    let server = TestServer::builder()
        .extension(extension("/ext/a", &engine, &module(&with("first"))))
        .extension(extension("/ext/b", &engine, &module(&with("second"))))
        .start()
        .await;
    let document = document_of(&server.connect().await.get(PATH).await);
    for (mount, kind) in [("a", "first"), ("b", "second")] {
        let operation = &document["paths"][format!("/ext/{mount}")]["get"];
        let reference = operation["responses"]["200"]["$ref"].as_str().unwrap();
        let response = document.pointer(&reference[1..]).unwrap();
        assert_eq!(response["description"], kind, "{document}");
        assert_eq!(
            operation["operationId"],
            format!("{}.get", operation["tags"][0].as_str().unwrap())
        );
    }
}

#[tokio::test]
async fn a_module_with_an_invalid_document_is_rejected() {
    let server = TestServer::start().await;
    let invalid = module(&json!({"openapi": "3.0.0"}));
    let report = server.swap(invalid.clone()).await;
    let SwapOutcome::Rejected { reason: Rejection::Invalid, message } = report.outcome else {
        panic!("{report:?}")
    };
    let problem = "module new.wasm: its OpenAPI document has version \"3.0.0\"; expected 3.1; correct the document, or remove the section openapi";
    assert!(message.ends_with(problem), "{message}");

    let long = json!({"openapi": "3.1.0", "paths": {"x".repeat(100_000): {}}});
    let report = server.swap(module(&long)).await;
    let SwapOutcome::Rejected { message, .. } = report.outcome else { panic!("{report:?}") };
    assert!(message.len() < 2_000, "{message}");

    let folder = Folder::new();
    let file = folder.write("x.wasm", &invalid);
    let ended = Program::server().args(["--module", &file]).run().await;
    assert_eq!(ended.status, Some(2));
    assert!(ended.stderr.contains("its OpenAPI document has version \"3.0.0\""), "{ended:?}");
}

/// A path that is not declared has no route: clients choose it.
#[tokio::test]
async fn requests_are_counted_by_route() {
    let server = TestServer::builder().metered().start().await;
    let mut client = server.connect().await;
    for path in ["/chain/a", "/chain/a", "/chain/b", "/nope/1", "/version"] {
        client.get(path).await;
    }
    let series = server.api().request_series();
    let count = |route: Option<&str>, origin| {
        let series = series.iter().filter(|series| series.origin == origin);
        let series = series.filter(|series| series.route.as_deref() == route);
        series.map(|series| series.times.count()).sum::<u64>()
    };
    assert_eq!(count(Some("/chain/{id}"), Origin::Run), 2, "{series:?}");
    assert_eq!(count(Some("/chain/{id}"), Origin::Cache), 1);
    assert_eq!(count(Some("/version"), Origin::Run), 1);
    assert_eq!(count(None, Origin::Run), 1);
    assert_eq!(series.iter().map(|series| series.times.count()).sum::<u64>(), 5);
}
