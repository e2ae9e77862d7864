//! Does a module with the SDK get its requests, and does it import no more than it reads?

use relayer_rest_host::module::{BundledExtension, DEFAULT_MODULE};
use relayer_rest_sdk::Request;
use relayer_rest_sdk::testing::FakeHost;
use relayer_rest_tests::cargo::SDK_GUEST;
use relayer_rest_tests::sdk_cases::CASES;
use relayer_rest_tests::server::TestServer;

#[test]
fn handlers_get_their_request_in_native_tests() {
    let host = FakeHost::new().with_chain("ibc-0").with_chain("ibc-1");
    for case in CASES {
        let response = relayer_rest_sdk_guest::handle(&host, &Request::get(case.target));
        case.check(response.status, response.text_body());
    }
    let request = Request::get("/header").with_header("X-A", "b").with_header("x-a", "c");
    let response = relayer_rest_sdk_guest::handle(&host, &request);
    assert_eq!(response.json_body()["result"], "b, c");
}

#[tokio::test]
async fn handlers_get_their_request_from_clients() {
    let server = TestServer::builder().component(SDK_GUEST).start().await;
    let mut client = server.connect().await;
    for case in CASES {
        let response = client.get(case.target).await;
        case.check(response.status.as_u16(), response.text());
    }
    let response = client.request_with("GET", "/header", &[("X-A", "b"), ("x-a", "c")]).await;
    response.check(200, r#"{"status":"success","result":"b, c"}"#);
    assert_eq!(response.header("vary"), "x-a, accept, prefer");
}

/// A response depends on the query only if a handler reads it.
#[tokio::test]
async fn a_handler_that_does_not_read_the_query_runs_once_for_all_queries() {
    let server = TestServer::builder().component(SDK_GUEST).start().await;
    let mut client = server.connect().await;
    let runs = || server.api().module().unwrap().runs();
    let before = runs();
    for query in ["", "?a=1", "?a=2", "?%zz"] {
        assert_eq!(client.get(&format!("/param/b/c{query}")).await.status, 200);
    }
    assert_eq!(runs() - before, 1);
    for query in ["?a=1", "?a=2", "?a=1"] {
        assert_eq!(client.get(&format!("/query{query}")).await.status, 200);
    }
    assert_eq!(runs() - before, 3);
}

#[tokio::test]
async fn unknown_data_is_not_ready_without_code_of_the_module() {
    let server = TestServer::builder().component(SDK_GUEST).without_state().start().await;
    let mut client = server.connect().await;
    for path in ["/", "/chain/ibc-0", "/workers"] {
        let response = client.get(path).await;
        assert_eq!((response.status.as_u16(), response.error_name()), (503, "NotReady".into()));
        assert_ne!(response.header("retry-after"), "");
    }
}

#[test]
fn only_modules_that_read_the_query_or_headers_import_them() {
    let imports = |component: &[u8], interface: &str| {
        let name = format!("relayer:rest/{interface}@");
        component.windows(name.len()).any(|part| part == name.as_bytes())
    };
    let bundled = |name| BundledExtension::named(name).unwrap().component;
    for (component, reads_query) in [
        (DEFAULT_MODULE, false),
        (bundled("dashboard"), false),
        (bundled("metrics"), false),
        (bundled("health"), true),
    ] {
        assert!(imports(component, "handler"));
        assert_eq!(imports(component, "query"), reads_query);
        assert!(!imports(component, "request"));
    }
}
