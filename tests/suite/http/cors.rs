//! May only pages of the origins in the settings read responses?

use relayer_rest_tests::client::Response;
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};

const ORIGIN: (&str, &str) = ("origin", "https://a.example");
const OTHER: (&str, &str) = ("origin", "https://b.example");
const ASKS: (&str, &str) = ("access-control-request-method", "GET");

async fn server(origins: &str) -> Serving {
    let folder = Folder::new();
    let config = folder.write("c.toml", format!("[cors]\norigins = {origins}\n"));
    Program::server().args(["--config", &config]).start().await
}

/// Returns the values of the headers with this prefix, by name.
fn headers<'a>(response: &'a Response, prefix: &str) -> Vec<(&'a str, &'a str)> {
    let headers = response.headers.iter();
    let mut found: Vec<_> = headers
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .filter(|(name, _)| name.starts_with(prefix))
        .collect();
    found.sort_unstable();
    found
}

#[track_caller]
fn check_allowed(response: &Response, origin: &str) {
    let found = headers(response, "access-control-");
    assert_eq!(found[0], ("access-control-allow-origin", origin), "{found:?}");
    for name in ["etag", "preference-applied", "x-relayer-module"] {
        assert!(found[1].1.split(", ").any(|exposed| exposed == name), "{found:?}");
    }
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn pages_of_allowed_origins_can_read_each_response() {
    let serving = server("['https://a.example']").await;
    let mut client = serving.connect().await;
    // The second one is cached.
    for _ in 0..2 {
        let response = client.request_with("GET", "/chains", &[ORIGIN]).await;
        assert_eq!(response.status, 200);
        check_allowed(&response, "https://a.example");
        assert!(headers(&response, "vary").contains(&("vary", "origin")));
    }
    let etag = client.get("/chains").await.header("etag").to_owned();
    let fresh = client.request_with("GET", "/chains", &[ORIGIN, ("if-none-match", &etag)]).await;
    assert_eq!(fresh.status, 304);
    check_allowed(&fresh, "https://a.example");
    for (path, status) in [("/nope", 404), (&*format!("/{}", "x".repeat(9_000)), 414)] {
        let response = client.request_with("GET", path, &[ORIGIN]).await;
        assert_eq!(response.status, status);
        check_allowed(&response, "https://a.example");
    }
    for other in [&[OTHER][..], &[("origin", "null")], &[]] {
        let response = client.request_with("GET", "/chains", other).await;
        assert_eq!(headers(&response, "access-control-"), []);
        // A shared cache must not give it to the page of another origin.
        assert!(headers(&response, "vary").contains(&("vary", "origin")));
    }
}

#[tokio::test]
async fn the_host_responds_to_preflights() {
    let serving = server("['https://a.example']").await;
    let mut client = serving.connect().await;
    let response = client.request_with("OPTIONS", "/chains", &[ORIGIN, ASKS]).await;
    assert_eq!((response.status.as_u16(), response.text()), (204, ""));
    for (name, value) in [
        ("access-control-allow-origin", "https://a.example"),
        ("access-control-allow-methods", "GET, HEAD"),
        (
            "access-control-allow-headers",
            "if-match, if-none-match, last-event-id, prefer, x-relayer-min-generation, x-request-id",
        ),
        ("access-control-max-age", "3600"),
    ] {
        assert_eq!(response.header(name), value);
    }
    let response = client.request_with("OPTIONS", "/chains", &[OTHER, ASKS]).await;
    assert_eq!(response.status, 204);
    assert_eq!(headers(&response, "access-control-"), []);
    // Other requests with OPTIONS are for the module.
    assert_eq!(client.request_with("OPTIONS", "/chains", &[ORIGIN]).await.status, 405);
}

#[tokio::test]
async fn a_star_allows_all_origins() {
    let serving = server("['*']").await;
    let mut client = serving.connect().await;
    let response = client.request_with("GET", "/chains", &[OTHER]).await;
    check_allowed(&response, "*");
    assert!(!headers(&response, "vary").contains(&("vary", "origin")));
}

#[tokio::test]
async fn no_origin_is_allowed_by_default() {
    let serving = Program::server().start().await;
    let mut client = serving.connect().await;
    let response = client.request_with("GET", "/chains", &[ORIGIN]).await;
    assert_eq!(headers(&response, "access-control-"), []);
    assert_eq!(client.request_with("OPTIONS", "/chains", &[ORIGIN, ASKS]).await.status, 405);
}

#[tokio::test]
async fn an_invalid_origin_is_refused_with_its_place() {
    let folder = Folder::new();
    for (origins, message) in [
        (
            "['a.example']",
            "line 2, column 12: cors.origins[0]: \"a.example\" is not an origin; expected scheme, host and port",
        ),
        (
            &*format!("[{}]", "'*',".repeat(257)),
            "line 2, column 11: cors.origins: 257 origins; expected up to 256",
        ),
    ] {
        let config = folder.write("c.toml", format!("[cors]\norigins = {origins}\n"));
        let ended = Program::server().args(["--config", &config]).run().await;
        assert_eq!(ended.status, Some(2));
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}
