//! Do streams have each version of a response as an event?

use super::live::{add_worker, waiters};
use relayer_rest_host::LiveLimits;
use relayer_rest_host::state::{Object, Stale, Worker};
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::events::Events;
use relayer_rest_tests::server::TestServer;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_each_version_as_an_event() {
    let server = TestServer::start().await;
    for mut client in [Client::http1(server.address).await, Client::http2(server.address).await] {
        let mut events = Events::open(&mut client, "/state", &[]).await;
        assert_eq!(events.headers["cache-control"], "no-cache, no-transform");
        assert_eq!(events.headers["x-accel-buffering"], "no");
        assert!(events.headers.contains_key("x-request-id"));
        for id in 1_000..1_005 {
            let event = events.next().await.unwrap();
            let now = server.get("/state").await;
            assert_eq!((&*event.name, &*event.data), ("change", now.text()));
            assert_eq!(event.id.as_deref(), Some(now.header("etag")));
            add_worker(&server.publisher, id);
        }
        drop((events, client));
        waiters(&server, 0).await;
        server.publisher.update_state(|state| state.workers.retain(|worker| worker.id < 1_000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_stream_has_each_event_when_it_happens() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    for mut client in [Client::http1(server.address).await, Client::http2(server.address).await] {
        let gzip = [("accept-encoding", "br, gzip"), ("prefer", "patch")];
        let mut events = Events::open(&mut client, "/state", &gzip).await;
        assert_eq!(events.headers["content-encoding"], "gzip");
        assert_eq!(events.headers["preference-applied"], "patch");
        let mut state = events.next().await.unwrap().json();
        for id in 1_000..1_005 {
            add_worker(&server.publisher, id);
            let event = events.next().await.unwrap();
            assert_eq!(event.name, "patch");
            apply(&mut state, event.json());
            let now = server.get("/state").await;
            assert_eq!(state, serde_json::from_slice::<Value>(&now.body).unwrap());
            assert_eq!(event.id.as_deref(), Some(now.header("etag")));
        }
        drop((events, client));
        waiters(&server, 0).await;
        server.publisher.update_state(|state| state.workers.retain(|worker| worker.id < 1_000));
    }
    let mut client = server.connect().await;
    for accepted in ["br, zstd", "gzip;q=0", "identity, gzip;q=0.5"] {
        let events = Events::open(&mut client, "/state", &[("accept-encoding", accepted)]).await;
        assert!(!events.headers.contains_key("content-encoding"), "{accepted}");
        drop(events);
        client = server.connect().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_continues_after_the_last_event_that_the_client_has() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let before = server.get("/state").await;
    let last = [("last-event-id", before.header("etag"))];
    let mut events = Events::open(&mut client, "/state", &last).await;
    // A comment tells that the client is connected.
    assert_eq!(events.next_block().await.unwrap(), ":");
    add_worker(&server.publisher, 1_000);
    let event = events.next().await.unwrap();
    assert_eq!(event.data, server.get("/state").await.text());
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &last).await;
    assert_eq!(events.next().await.unwrap(), event);
    // A state that is not confirmed begins with its age, also for a client that has it.
    let since = Instant::now();
    server.publisher.set_stale(Some(Stale { since, chains: false }));
    assert_eq!(events.next().await.unwrap().name, "stale");
    let last = [("last-event-id", &*event.id.unwrap())];
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &last).await;
    assert_eq!(events.next().await.unwrap().name, "stale");
    server.publisher.set_stale(None);
    assert_eq!(events.next().await.unwrap().name, "confirmed");
}

/// The entity tag of a response that the client got compressed is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_continues_after_a_response_in_any_encoding() {
    let text: &[(&str, &[u8])] = &[("content-type", b"text/plain")];
    let tagged = [text, &[("etag", &b"\"mine\""[..])]].concat();
    let server = TestServer::start().await;
    let body = [b'a'; 5_000];
    for (headers, changed) in [(text, text), (&tagged, text)] {
        server.swap(component::of_response(200, headers, &body)).await;
        let mut tags = Vec::new();
        for encoding in ["identity", "gzip", "br", "zstd"] {
            let mut client = server.connect().await;
            let accept = [("accept-encoding", encoding)];
            let response = client.request_with("GET", "/", &accept).await;
            let tag = response.header("etag").to_owned();
            let mut events = Events::open(&mut client, "/", &[("last-event-id", &tag)]).await;
            assert_eq!(events.next_block().await.unwrap(), ":", "{tag}");
            tags.push((client, events, tag));
        }
        // The client of another one gets the body.
        for tag in ["\"other-gzip\"", "\"mine-gzip\"", "W/\"other\""] {
            let mut client = server.connect().await;
            let mut events = Events::open(&mut client, "/", &[("last-event-id", tag)]).await;
            assert_eq!(events.next().await.unwrap().name, "change", "{tag}");
        }
        server.swap(component::of_response(200, changed, b"new")).await;
        for (_, events, tag) in &mut tags {
            assert_eq!(events.next().await.unwrap().data, "new", "{tag}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_text_is_sent_as_events_and_an_error_of_the_client_as_it_is() {
    let server = TestServer::start().await;
    let accept = [("accept", "text/event-stream")];
    let mut client = server.connect().await;
    let absent = client.request_with("GET", "/chain/absent", &accept).await;
    assert_eq!((absent.status.as_u16(), absent.header("content-type")), (404, "application/json"));
    let head = client.request_with("HEAD", "/state", &accept).await;
    assert_eq!(head.header("content-type"), "application/json");
    for (kind, body) in [("image/png", &b"a"[..]), ("text/plain", b"\xff")] {
        let component = component::of_response(200, &[("content-type", kind.as_bytes())], body);
        server.swap(component).await;
        let response = client.request_with("GET", "/", &accept).await;
        let msg =
            "the response is not text, which events are; request it without text/event-stream";
        response.check_error(406, "NotAcceptable", msg);
        assert_eq!(response.header("vary"), "accept, prefer");
    }
    let to: &[(&str, &[u8])] = &[("location", b"/b"), ("content-type", b"text/plain")];
    server.swap(component::of_response(301, to, b"moved")).await;
    let moved = client.request_with("GET", "/", &accept).await;
    assert_eq!((moved.status.as_u16(), moved.text()), (301, "moved"));
    // If a stream has begun, it is an event.
    let text: &[(&str, &[u8])] = &[("content-type", b"text/plain")];
    server.swap(component::of_response(200, text, b"a")).await;
    let mut events = Events::open(&mut client, "/", &[]).await;
    assert_eq!(events.next().await.unwrap().data, "a");
    server.swap(component::of_response(200, text, b"\xff")).await;
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, &failed.json()["status"]), ("failed", &json!(406)));
}

/// They are of the first body, or of a response that ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_no_headers_of_its_first_body() {
    let of_body = [
        ("accept-ranges", "none"),
        ("content-disposition", "inline"),
        ("content-location", "/b"),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
        ("etag", "\"a\""),
        ("expires", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("retry-after", "1"),
    ];
    let server = TestServer::start().await;
    for (own, expected) in [
        ("max-age=60", "no-cache, no-transform"),
        ("Private, max-age=60", "no-cache, no-transform, private"),
        ("private=\"x-a\"", "no-cache, no-transform, private"),
        ("no-store", "no-cache, no-transform, no-store"),
        ("no-store, private", "no-cache, no-transform, private, no-store"),
    ] {
        let mut headers = vec![("content-type", &b"text/plain"[..]), ("x-a", b"b")];
        headers.extend(of_body.map(|(name, value)| (name, value.as_bytes())));
        headers.push(("cache-control", own.as_bytes()));
        assert!(server.swap(component::of_response(200, &headers, b"a")).await.is_accepted());
        let response = server.get("/").await;
        let mut client = server.connect().await;
        let events = Events::open(&mut client, "/", &[]).await;
        assert_eq!(events.headers["x-a"], "b");
        assert_eq!(events.headers["cache-control"], expected, "{own}");
        for (name, value) in of_body {
            assert_eq!(response.header(name), value);
            assert_eq!(events.headers.get(name), None);
        }
    }
}

/// Its response would be another one otherwise, and not shared with other requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_does_not_see_that_a_client_wants_a_stream() {
    let module = component::that_returns("Accept");
    let server = TestServer::builder().component(&module).start().await;
    for (accept, seen) in [
        ("text/event-stream", None),
        ("application/json, text/event-stream", Some("application/json")),
    ] {
        let seen: Vec<_> = seen.map(|value| ("accept", value)).into_iter().collect();
        let mut client = server.connect().await;
        let plain = client.request_with("GET", "/a", &seen).await;
        for method in ["GET", "HEAD"] {
            let mut client = server.connect().await;
            let headers = [("accept", accept)];
            let response = client.begin(method, "/a", &headers).await.unwrap();
            let is_stream = response.headers()["content-type"] == "text/event-stream";
            assert_eq!(is_stream, method == "GET", "{accept}");
            if !is_stream {
                assert_eq!(response.headers()["etag"], plain.header("etag"), "{accept}");
            }
        }
        let mut events =
            Events::of(client.begin("GET", "/a", &[("accept", accept)]).await.unwrap());
        let event = events.next().await.unwrap();
        assert_eq!(event.data, plain.text(), "{accept}");
        assert_eq!(event.id.as_deref(), Some(plain.header("etag")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_begins_with_an_error_of_the_server_of_any_type() {
    let module = component::of_response(500, &[("content-type", b"image/png")], b"a");
    let server = TestServer::builder().component(&module).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[("accept-encoding", "gzip")]).await;
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, failed.json()), ("failed", json!({"status": 500, "body": "a"})));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_an_event_and_ends_no_stream() {
    let server = TestServer::builder().without_state().start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    let failed = events.next().await.unwrap();
    assert_eq!((&*failed.name, failed.id.as_deref()), ("failed", Some("")));
    assert_eq!(failed.json()["status"], 503);
    assert_eq!(failed.json()["body"]["status"], "error");
    add_worker(&server.publisher, 1);
    assert_eq!(events.next().await.unwrap().data, server.get("/state").await.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_tells_that_its_state_is_stale() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let since = Instant::now().checked_sub(Duration::from_secs(7)).unwrap();
    server.publisher.set_stale(Some(Stale { since, chains: false }));
    let stale = events.next().await.unwrap();
    assert_eq!(stale.name, "stale");
    assert!(stale.json()["age"].as_u64().unwrap() >= 7, "{stale:?}");
    // Of a stream that begins with it, the client learns before the state that it is stale.
    let mut other = server.connect().await;
    let mut begun = Events::open(&mut other, "/state", &[]).await;
    assert_eq!(begun.next().await.unwrap().name, "stale");
    assert_eq!(begun.next().await.unwrap().name, "change");
    server.publisher.set_stale(None);
    assert_eq!(events.next().await.unwrap().name, "confirmed");
    // No module was run for this.
    assert_eq!(server.live.status().runs, 0);
}

/// Applies a patch of an event to a document.
pub(crate) fn apply(document: &mut Value, patch: Value) {
    if patch.is_array() {
        let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
        json_patch::patch(document, &patch).unwrap();
    } else {
        json_patch::merge(document, &patch);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_patches_if_the_client_prefers_them() {
    let server = TestServer::start().await;
    (0..300).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    let mut client = server.connect().await;
    let mut other = server.connect().await;
    let mut events = Events::open(&mut client, "/state", &[("prefer", "patch")]).await;
    let mut whole = Events::open(&mut other, "/state", &[]).await;
    let mut document = events.next().await.unwrap().json();
    assert_eq!(whole.next().await.unwrap().json(), document);
    for id in [10_300, 9_999, 10_150] {
        server.publisher.update_state(|state| {
            if state.workers.iter().any(|worker| worker.id == id) {
                state.workers.retain(|worker| worker.id != id);
            } else {
                let object = Object::Wallet { chain_id: "ibc-0".into() };
                state.workers.push(Worker { id, object, data: None });
            }
        });
        let event = events.next().await.unwrap();
        let body = server.get("/state").await;
        assert_eq!((&*event.name, event.id.as_deref()), ("patch", Some(body.header("etag"))));
        assert!(event.data.len() < body.body.len() / 20, "{}", event.data);
        apply(&mut document, event.json());
        assert_eq!(document, serde_json::from_slice::<Value>(&body.body).unwrap());
        assert_eq!(whole.next().await.unwrap().json(), document);
    }
    // A patch that is not much shorter than the body is not sent.
    server.publisher.update_state(|state| state.workers.clear());
    let event = events.next().await.unwrap();
    assert_eq!((&*event.name, event.json()), ("change", whole.next().await.unwrap().json()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_and_a_response_with_the_same_tag_are_two_versions() {
    let module = |status, body: &[u8]| {
        let headers: &[(&str, &[u8])] = &[("content-type", b"text/plain"), ("etag", b"\"1\"")];
        component::of_response(status, headers, body)
    };
    let server = TestServer::builder().component(&module(500, b"no")).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[]).await;
    assert_eq!(events.next().await.unwrap().name, "failed");
    assert!(server.swap(module(200, b"yes")).await.is_accepted());
    let event = events.next().await.unwrap();
    assert_eq!((&*event.name, event.id.as_deref(), &*event.data), ("change", Some("\"1\""), "yes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_are_between_texts_only() {
    let module = |content_type: &[u8], number| {
        let body = format!("{{\"number\":{number},\"rest\":\"{}\"}}", "a".repeat(1_000));
        component::of_response(200, &[("content-type", content_type)], body.as_bytes())
    };
    let json = b"application/json";
    let server = TestServer::builder().component(&module(json, 1)).start().await;
    let mut client = server.connect().await;
    let mut events = Events::open(&mut client, "/a", &[("prefer", "patch")]).await;
    assert_eq!(events.next().await.unwrap().name, "change");
    let binary = b"application/octet-stream";
    for (module, name) in [
        (module(json, 2), "patch"),
        (module(binary, 3), "failed"),
        (module(json, 4), "change"),
        (module(json, 5), "patch"),
    ] {
        assert!(server.swap(module).await.is_accepted());
        assert_eq!(events.next().await.unwrap().name, name);
    }
}

/// A client that does not read is sent the newest state when it does, and none between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_skips_states() {
    const COUNT: u64 = 200;
    let live = LiveLimits { min_interval: Duration::from_millis(1), ..LiveLimits::default() };
    let server = TestServer::builder().live(live).start().await;
    (0..5_000).for_each(|id| add_worker(&server.publisher, 10_000 + id));
    let mut slow = server.connect().await;
    let mut slow = Events::open(&mut slow, "/state", &[]).await;
    let mut fast = server.connect().await;
    let mut fast = Events::open(&mut fast, "/state", &[]).await;
    for id in 0..COUNT {
        let before = fast.next().await.unwrap();
        add_worker(&server.publisher, 1_000 + id);
        assert_ne!(before.data, "");
    }
    let last = server.get("/state").await;
    while fast.next().await.unwrap().data != last.text() {}
    // It holds one event, and the other client has taken its last one, or is about to.
    let event = last.body.len() as u64 + 1_024;
    let status = server.connections.status();
    assert!((1..=2 * event).contains(&status.unsent), "{} of {event}", status.unsent);
    let mut count = 1;
    while slow.next().await.unwrap().data != last.text() {
        count += 1;
    }
    // The system has buffered this many.
    assert!(count < COUNT / 2, "{count} of {COUNT}");
}
