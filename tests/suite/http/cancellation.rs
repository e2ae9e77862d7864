//! Are cancelled requests counted, so that they cannot starve the sockets?

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use relayer_rest_host::module::{GuestRequest, Module, RunPermit};
use relayer_rest_host::registry::Mount;
use relayer_rest_host::state::StatePublisher;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, patient, request};
use tokio::task::yield_now;

/// The extension is second; the API is first, and its runs are not exempt.
fn modules(component: &[u8]) -> [Module; 2] {
    let limits = patient();
    let module = || Module::from_bytes(&engine(&limits), "test", component).unwrap();
    let mount = Mount::extension("/ext/slow".parse().unwrap(), module());
    [module(), mount.module().unwrap()]
}

fn fast() -> Arc<GuestRequest> {
    request("GET", "/fast", &[])
}

/// The first runs of a target start on the thread that serves the socket. Once enough of
/// that thread's time was spent on cancelled runs of a target, its runs start elsewhere,
/// for any query. Runs of a fast target do not.
#[tokio::test]
async fn targets_with_cancelled_runs_start_in_the_pool() {
    for module in modules(&component::that_takes_on_slow(400_000_000)) {
        let snapshot = StatePublisher::new().reader().snapshot();
        let elsewhere = || module.engine().runs_started_elsewhere();
        let mut cancelled = 0;
        while elsewhere() == 0 {
            let slow = request("GET", &format!("/slow?{cancelled}"), &[]);
            let mut run = Box::pin(
                RunPermit::acquire(&module).await.unwrap().execute(slow, snapshot.clone()),
            );
            tokio::select! {
                biased;
                _ = &mut run => panic!("the run is long"),
                () = yield_now() => {}
            }
            drop(run);
            cancelled += 1;
            assert!(cancelled < 10_000, "runs that are cancelled are not counted");
        }
        assert!(cancelled > 1, "the first one cannot be known to be slow");

        // Runs of unknown targets may start elsewhere until the targets are known.
        loop {
            let before = elsewhere();
            let permit = RunPermit::acquire(&module).await.unwrap();
            permit.execute(fast(), snapshot.clone()).await.unwrap();
            if elsewhere() == before {
                break;
            }
        }
    }
}

#[tokio::test]
async fn connections_that_cancel_too_many_requests_get_429() {
    let limits = patient();
    let server = TestServer::builder()
        .component(&component::that_spins_on_spin())
        .limits(&limits)
        .start()
        .await;
    let mut client = Client::http2(server.address).await;
    assert_eq!(client.get("/cached").await.status, 204);
    let mut round = 0;
    let refused = loop {
        let mut sender = client.http2_sender();
        let spinning: Vec<_> = (0..50)
            .map(|_| {
                let uri = format!("http://{}/spin", server.address);
                sender.send_request(Request::get(uri).body(Empty::<Bytes>::new()).unwrap())
            })
            .collect();
        // Once this response arrives, the server has received the requests before it.
        assert_eq!(client.get("/cached").await.status, 204);
        drop(spinning);
        let response = client.get(&format!("/{round}")).await;
        if response.status == 429 {
            break response;
        }
        assert_eq!(response.status, 204);
        round += 1;
        assert!(round < 1_000, "cancelled requests are not counted");
    };
    assert_eq!(refused.error_name(), "TooManyCancelled");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(client.get("/cached").await.status, 204, "cached responses are not refused");
    let mut other = Client::http1(server.address).await;
    assert_eq!(other.get("/of-another-connection").await.status, 204);
    client.get_until("/later", |response| response.status == 204).await;
}

/// A request that gets an error instead of its response was not cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_do_not_count_as_cancelled() {
    const COUNT: usize = 300;
    let image = component::of_response(200, &[("content-type", b"image/png")], b"a");
    for (component, method, accept, status) in [
        (image, "GET", "text/event-stream", 406),
        (component::that_clears_packets(1), "POST", "*/*", 403),
    ] {
        let server = TestServer::builder().component(&component).start().await;
        let mut client = server.connect().await;
        for _ in 0..COUNT {
            let response = client.request_with(method, "/", &[("accept", accept)]).await;
            assert_eq!(response.status, status, "{}", response.text());
        }
    }
}
