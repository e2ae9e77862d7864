//! Does `explain` show on which values a response depends, and why it is or is not cached?

use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::folder::Folder;
use relayer_rest_tests::program::{Program, Serving};
use serde_json::{Value, json};

/// Returns the explanation of a response as JSON.
async fn explain(serving: &Serving, args: &[&str]) -> Value {
    let args = [&["explain", "--json"], args].concat();
    let ended = serving.control(&args).await;
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Returns the functions that a response was derived from, with their arguments.
fn reads(explanation: &Value) -> Vec<String> {
    let reads = explanation["reads"].as_array().unwrap().iter();
    let name = |read: &Value| {
        let argument = read["argument"].as_str().map(|argument| format!(" {argument}"));
        format!("{}{}", read["function"].as_str().unwrap(), argument.unwrap_or_default())
    };
    reads.map(name).collect()
}

#[tokio::test]
async fn the_reads_of_a_response_are_shown_with_their_generations() {
    let serving = Program::server().start().await;
    let explanation = explain(&serving, &["/chain/ibc-0"]).await;
    assert_eq!(reads(&explanation), ["chains.config ibc-0"]);
    let read = &explanation["reads"][0];
    assert!(read["generation"].as_u64().unwrap() <= explanation["generation"].as_u64().unwrap());
    assert_eq!(read["is_current"], true);
    assert_eq!((&explanation["mount"], &explanation["status"]), (&json!("/"), &json!(200)));
    // An absent chain is a read, too.
    let explanation = explain(&serving, &["/chain/none"]).await;
    assert_eq!(
        (&explanation["status"], reads(&explanation)),
        (&json!(404), vec!["chains.config none".to_owned()])
    );
    assert_eq!(explanation["reads"][0]["generation"], Value::Null);
    let text = serving.control(&["explain", "/chain/none"]).await.stdout;
    assert!(text.contains("\n  chains.config none           absent\n"), "{text}");
    let text = serving.control(&["explain", "http://relayer.example/state?a=b"]).await.stdout;
    for line in [
        "request   GET /state?a=b (as the module gets it)",
        "cache     not cached yet, or evicted; the next request caches it",
        "varies by method, path and nothing else",
        "reads",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}: {text}");
    }
    assert!(text.contains("\n  state.current                generation "), "{text}");
}

#[tokio::test]
async fn a_cached_response_is_distinguished_from_an_absent_one() {
    let serving = Program::server().start().await;
    let status = |explanation: &Value| explanation["cache"]["status"].clone();
    assert_eq!(status(&explain(&serving, &["/chains"]).await), "absent");
    // An explanation does not fill the cache.
    assert_eq!(status(&explain(&serving, &["/chains"]).await), "absent");
    let mut client = serving.connect().await;
    for _ in 0..3 {
        assert_eq!(client.get("/chains").await.status, 200);
    }
    let cached = explain(&serving, &["/chains", "-X", "HEAD"]).await;
    assert_eq!(cached["cache"], json!({"status": "cached", "hits": 3}));
    // It does not count as a request, either.
    assert_eq!(explain(&serving, &["/chains"]).await["cache"]["hits"], 3);
}

#[tokio::test]
async fn a_cache_that_is_disabled_is_named() {
    let folder = Folder::new();
    let config = folder.write("c.toml", "[module.limits]\nresponse-cache = '0B'\n");
    let serving = Program::server().args(["--config", &config]).start().await;
    let text = serving.control(&["explain", "/chains"]).await.stdout;
    assert!(text.contains("cache     disabled: limits.response-cache is 0"), "{text}");
}

#[tokio::test]
async fn headers_and_the_query_are_shown_with_their_values() {
    let folder = Folder::new();
    let config = folder.write("c.toml", "extension = [{ name = 'health' }]");
    let serving = Program::server().args(["--config", &config]).start().await;
    let explanation = explain(&serving, &["/ext/health/readyz?chain=ibc-0"]).await;
    assert_eq!(
        (&explanation["mount"], &explanation["query"]),
        (&json!("/ext/health"), &json!(true))
    );
    assert_eq!(explanation["request"], "GET /readyz?chain=ibc-0");
    let query = explanation["reads"].as_array().unwrap().iter();
    let query: Vec<_> = query.filter(|read| read["function"] == "query.get").collect();
    assert_eq!(query[0]["value"], "chain=ibc-0");
}

#[tokio::test]
async fn the_headers_by_which_a_response_varies_are_shown() {
    let folder = Folder::new();
    let module = folder.write("header.wasm", component::that_returns("X-A"));
    let serving = Program::server().args(["--module", &module, "--dialect", "any"]).start().await;
    let request = ["/x", "-H", "x-a: one", "-H", "x-b: two"];
    let explanation = explain(&serving, &request).await;
    assert_eq!(explanation["headers"], json!(["x-a"]));
    let text = serving.control(&[&["explain"][..], &request].concat()).await.stdout;
    assert!(text.contains("\nvaries by method, path and header x-a\n"), "{text}");
    assert!(text.contains("one") && !text.contains("two"), "{text}");
}

#[tokio::test]
async fn a_module_that_fails_is_explained() {
    let folder = Folder::new();
    let module = folder.write(
        "trap.wasm",
        component::of_handler(&format!("{} unreachable", component::only_for(TRAP))),
    );
    let serving = Program::server().args(["--module", &module, "--dialect", "any"]).start().await;
    let explanation = explain(&serving, &[TRAP]).await;
    assert_eq!(explanation["cache"]["status"], "failed");
    assert!(explanation["error"].as_str().unwrap().contains("trapped"), "{explanation}");
}

#[tokio::test]
async fn bad_requests_to_explain_are_rejected_with_a_remedy() {
    let serving = Program::server().start().await;
    for (args, part) in [
        (&["chains"][..], "not a URL or a path; expected such as /chains"),
        (&["/a", "-H", "accept"], "header \"accept\": no colon"),
        (&["/a", "-H", "a b: c"], "expected a method, a target and headers as in HTTP"),
        (&["/a b"], "expected a method, a target and headers as in HTTP"),
        (&["/a", "-X", "G T"], "expected a method, a target and headers as in HTTP"),
    ] {
        let ended = serving.control(&[&["explain"], args].concat()).await;
        assert_eq!(ended.status, Some(2), "{args:?}");
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
    }
}
