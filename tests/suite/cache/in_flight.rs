//! Do concurrent requests for the same key share one run?

use std::time::Duration;

use relayer_rest_host::module::Limits;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, patient, request};
use relayer_rest_tests::wait::{until_async, within};

use super::{CacheTest, one_run};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_for_one_key_share_a_run() {
    let server = TestServer::builder()
        .component(&component::that_takes(100_000_000))
        .limits(&one_run())
        .start()
        .await;
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = server.connect().await;
        clients.push(tokio::spawn(async move { client.get("/").await }));
    }
    for client in clients {
        assert_eq!(client.await.unwrap().status, 204);
    }
}

/// The response depends on more headers than a cache key can have.
#[tokio::test]
async fn requests_with_uncacheable_responses_do_not_wait_for_each_other() {
    let component = component::that_reads_headers(17);
    let limits = Limits { concurrency: 2, ..one_run() };
    let server = TestServer::builder().component(&component).limits(&limits).start().await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/").await.status, 204);
    let mut other = server.connect().await;
    let slow = tokio::spawn(async move { other.request_with("GET", "/", &[("x-10", "1")]).await });
    while server.registry.at("/").unwrap().status().module().unwrap().runs < 2 {
        tokio::task::yield_now().await;
    }
    let response = within("a response that does not wait for the other", client.get("/")).await;
    assert_eq!(response.status, 204);
    assert!(!slow.is_finished());
    slow.abort();
}

#[tokio::test]
async fn requests_that_share_a_run_share_its_error() {
    let limits = Limits { time: Duration::from_millis(20), ..one_run() };
    let component = component::of_handler("(loop br 0) unreachable");
    let server = TestServer::builder().component(&component).limits(&limits).start().await;
    let mut one = server.connect().await;
    let mut other = server.connect().await;
    let (one, other) = tokio::join!(one.get("/"), other.get("/"));
    assert_eq!((one.status.as_u16(), other.status.as_u16()), (504, 504));
}

/// A failure applies only to the request that was run: others under the same key have a
/// run of their own, whose response is cached.
#[tokio::test]
async fn requests_with_different_headers_do_not_share_an_error() {
    let limits = Limits { concurrency: 64, ..one_run() };
    // Both of the first requests come while the run lasts.
    let test = CacheTest::new(Some(&component::that_traps_at_a_header(1_000_000_000)), &limits);
    let send = async |headers: &[(&str, &str)]| {
        let request = request("GET", "/", headers);
        let response = test.cache.get_or_run(&test.module, request, &test.state).await;
        response.map(|response| response.status().as_u16()).map_err(|error| error.to_string())
    };
    let mut hostile = Box::pin(send(&[("x-mode", "1")]));
    begin(&mut hostile).await;
    let mut same = Box::pin(send(&[("x-mode", "1")]));
    begin(&mut same).await;
    assert_eq!(test.module.runs(), 1);
    let honest = (0..16).map(|_| send(&[("user-agent", "honest")]));
    let (hostile, same, honest) =
        tokio::join!(hostile, same, futures_util::future::join_all(honest));
    assert!(hostile.as_ref().is_err_and(|error| error.contains("trapped")), "{hostile:?}");
    assert_eq!(same, hostile);
    for honest in honest {
        assert_eq!(honest, Ok(204));
    }
    assert!(test.is_cached("/"));
    assert_eq!(test.module.failures().trapped, 1);
}

/// Polls a future once, which must not complete.
async fn begin<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    tokio::select! {
        biased;
        _ = future => panic!("it ended at once"),
        () = tokio::task::yield_now() => {}
    }
}

#[tokio::test]
async fn a_run_is_cancelled_with_its_last_waiter() {
    let test = CacheTest::new(Some(&component::that_spins_on_spin()), &one_run());
    let mut first = Box::pin(test.request("/spin"));
    begin(&mut first).await;
    let mut second = Box::pin(test.request("/spin"));
    begin(&mut second).await;
    assert_eq!(test.request("/other").await, 0, "the run has the permit");
    drop(first);
    begin(&mut second).await;
    assert_eq!(test.request("/other").await, 0, "the run goes on");
    drop(second);
    until_async("the run is cancelled", async || test.request("/other").await == 204).await;
    assert_eq!(test.module.runs(), 2);
    assert!(!test.is_cached("/spin"));
}

#[tokio::test]
async fn a_run_started_before_a_change_is_not_shared_with_later_requests() {
    // The second module's response is invalid for two chains: the status would be 600.
    for (status, responses) in [(200, (202, 201)), (598, (0, 599))] {
        let component = component::that_counts_chains(100_000_000, status);
        let test = CacheTest::new(Some(&component), &patient());
        let mut before = Box::pin(test.request("/"));
        begin(&mut before).await;
        test.publisher.remove_chain(&"ibc-0".into());
        let after = test.request("/");
        assert_eq!(tokio::join!(before, after), responses);
        assert!(test.is_cached("/"));
    }
}
