//! Does an explanation have the reason for which a response is not cached?

use bytesize::ByteSize;
use relayer_rest_host::module::{GuestRequest, Limits};
use relayer_rest_host::registry::{CacheStatus, Explanation};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, patient, request};

async fn explain(server: &TestServer, target: &str) -> Explanation {
    let request = GuestRequest::clone(&request("GET", target, &[]));
    server.api().explain(request, &server.publisher.reader()).await
}

#[tokio::test]
async fn an_outdated_response_has_the_values_that_have_changed() {
    let server = TestServer::start().await;
    let path = "/state";
    assert_eq!(server.get(path).await.status, 200);
    assert!(matches!(explain(&server, path).await.cache, CacheStatus::Cached { .. }));
    server.publisher.update_state(|state| state.chains.push("ibc-9".into()));
    let explanation = explain(&server, path).await;
    let CacheStatus::Outdated { changed } = &explanation.cache else { panic!("{explanation:?}") };
    let [read] = &changed[..] else { panic!("{changed:?}") };
    assert!(read.function == "state.current" && !read.is_current, "{read:?}");
    // The module was run again, on the present state.
    let [read] = &explanation.reads[..] else { panic!("{explanation:?}") };
    assert!(read.is_current && read.generation > changed[0].generation, "{read:?}");
}

#[tokio::test]
async fn responses_that_are_never_cached_have_the_reason() {
    let large = component::of_response(200, &[], &vec![b'a'; 2 << 20]);
    let small_cache = Limits { response_cache: ByteSize::mib(1), ..patient() };
    for (component, limits, expected) in [
        (component::that_clears_packets(1), patient(), CacheStatus::Command),
        (component::that_reads_headers(65), patient(), CacheStatus::UnrecordedReads),
        (component::that_reads_headers(17), patient(), CacheStatus::TooManyHeaders),
        (component::that_reads_headers(16), patient(), CacheStatus::Absent),
        (large, small_cache, CacheStatus::TooLarge),
    ] {
        let builder = TestServer::builder().limits(&limits).component(&component);
        let server = builder.start().await;
        let explanation = explain(&server, "/").await;
        assert_eq!(explanation.cache, expected, "{explanation:?}");
        // A request of a client has the same fate.
        let runs = || server.api().module().unwrap().runs();
        for _ in 0..2 {
            server.get("/").await;
        }
        let is_cached = expected == CacheStatus::Absent;
        assert_eq!(runs(), if is_cached { 1 } else { 2 }, "{expected:?}");
    }
}
