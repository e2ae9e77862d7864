//! Is a running relayer's API served with the relayer's own meaning, and is a faulty
//! relayer harmless?

use std::time::Duration;

use relayer_rest_host::state::Upstream;
use relayer_rest_tests::client::Response;
use relayer_rest_tests::relayer::{Fault, Relayer, Script, state};
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::until;
use serde_json::{Value, json};

fn success(result: &Value) -> String {
    json!({"status": "success", "result": result}).to_string()
}

#[tokio::test]
async fn responses_of_0_7_are_served_unchanged() {
    let script = Script::of_0_7();
    let relayer = Relayer::start(script.clone());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    client.get_until_known().await;
    client.get("/chains").await.check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
    client.get("/state").await.check(200, &success(&script.state));
    for chain in &script.chains {
        let response = client.get(&format!("/chain/{}", chain["id"].as_str().unwrap())).await;
        response.check(200, &success(chain));
    }
    let version = env!("CARGO_PKG_VERSION");
    let body = format!(
        r#"[{{"name":"ibc-relayer","version":"0.7.0"}},{{"name":"ibc-relayer-rest","version":"{version}"}}]"#
    );
    client.get("/version").await.check(200, &body);
}

#[tokio::test]
async fn responses_of_1_13_are_served_in_the_shape_of_0_7() {
    let old = Script::of_0_7();
    let relayer = Relayer::start(Script::of_1_13());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    client.get_until_known().await;
    client.get("/state").await.check(200, &success(&old.state));
    for chain in &old.chains {
        let response = client.get(&format!("/chain/{}", chain["id"].as_str().unwrap())).await;
        response.check(200, &success(chain));
    }
    assert!(client.get("/version").await.text().contains("1.13.1+f44aa39"));
}

#[tokio::test]
async fn the_state_is_not_ready_until_the_relayer_responds() {
    let relayer = Relayer::start(Script { fault: Some(Fault::Hangs), ..Script::of_0_7() });
    let upstream = relayer.upstream_with(|polling| polling.timeout = Duration::from_millis(300));
    let server = TestServer::builder().upstream(upstream).start().await;
    let mut client = server.connect().await;
    let is_waiting =
        |response: &Response| response.text().contains("the relayer has not responded yet");
    for path in ["/state", "/chains", "/chain/ibc-0"] {
        let response = client.get_until(path, is_waiting).await;
        response.check_error(503, "NotReady", "the relayer has not responded yet");
        assert_eq!(response.header("retry-after"), "1");
    }
    assert_eq!(client.get("/version").await.status, 200);
}

#[tokio::test]
async fn workers_of_all_kinds_are_served_unchanged() {
    let workers = json!({
        "Client": [{"id": 1, "object": {"type": "Client", "dst_chain_id": "b", "dst_client_id": "07-tendermint-0", "src_chain_id": "a"}}],
        "Channel": [{"id": 2, "object": {"type": "Channel", "dst_chain_id": "b", "src_chain_id": "a", "src_channel_id": "channel-0", "src_port_id": "transfer"}}],
        "Connection": [{"id": 3, "object": {"type": "Connection", "dst_chain_id": "b", "src_chain_id": "a", "src_connection_id": "connection-0"}}],
        "Packet": [{"id": 4, "object": {"type": "Packet", "dst_chain_id": "b", "src_chain_id": "a", "src_channel_id": "channel-0", "src_port_id": "transfer"}}],
        "Wallet": [{"id": 5, "object": {"type": "Wallet", "chain_id": "a"}}],
        "CrossChainQuery": [{"id": 6, "object": {"type": "CrossChainQuery", "src_chain_id": "a", "dst_chain_id": "b", "query_id": "7", "connection_id": "connection-7"}}],
        "Future": [{"id": 7, "object": {"type": "Future", "z": 1, "a": "text", "m": null}}],
    });
    let state = json!({"chains": ["a", "b"], "workers": workers});
    let relayer = Relayer::start(Script { state: state.clone(), ..Script::of_0_7() });
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let response =
        server.connect().await.get_until("/state", |response| response.status == 200).await;
    response.check(200, &success(&state));
}

#[tokio::test]
async fn a_faulty_relayer_leaves_the_last_state_in_place() {
    let relayer = Relayer::start(Script::of_0_7());
    // The relayer hangs for this long.
    let upstream = relayer.upstream_with(|polling| polling.timeout = Duration::from_secs(2));
    let server = TestServer::builder().upstream(upstream).start().await;
    let mut client = server.connect().await;
    client.get_until_known().await;
    for (clients, fault) in [
        (3, Fault::Garbage),
        (4, Fault::HalfJson),
        (5, Fault::ClosesMidResponse),
        (6, Fault::Oversized(1 << 20)),
        (7, Fault::Hangs),
        (8, Fault::Status500),
        (9, Fault::Refuses),
    ] {
        let before = client.get("/state").await.body;
        let after = state(&["ibc-0", "ibc-1"], clients, false);
        relayer.change(|script| {
            script.fault = Some(fault);
            script.state = after.clone();
        });
        let stale =
            client.get_until("/state", |response| response.headers.contains_key("age")).await;
        assert_eq!((stale.status.as_u16(), &stale.body), (200, &before), "{fault:?}");
        assert_eq!(stale.header("warning"), "110 - \"Response is Stale\"");
        stale.header("age").parse::<u64>().unwrap();
        assert_eq!(client.get("/chains").await.status, 200);
        relayer.change(|script| script.fault = None);
        let fresh =
            client.get_until("/state", |response| !response.headers.contains_key("age")).await;
        assert_eq!(fresh.text(), success(&after), "{fault:?}");
    }
}

#[tokio::test]
async fn the_state_of_an_unreachable_relayer_is_served_as_stale() {
    let script = Script::of_0_7();
    let relayer = Relayer::start(script.clone());
    let upstream = relayer.upstream_with(|polling| polling.max_stale = Duration::from_hours(1));
    let server = TestServer::builder().upstream(upstream).start().await;
    let mut client = server.connect().await;
    client.get_until("/state", |response| response.status == 200).await;
    let gone = relayer.go().await;
    let stale = client.get_until("/state", |response| response.headers.contains_key("age")).await;
    assert_eq!((stale.status.as_u16(), stale.text()), (200, &*success(&script.state)));
    let _relayer = gone.come_back();
    let back = client.get_until("/state", |response| !response.headers.contains_key("age")).await;
    assert_eq!((back.status.as_u16(), back.text()), (200, &*success(&script.state)));
}

#[tokio::test]
async fn the_state_of_an_unreachable_relayer_expires_at_its_maximum_age() {
    let script = Script::of_0_7();
    let relayer = Relayer::start(script.clone());
    let upstream = relayer.upstream_with(|polling| polling.max_stale = Duration::from_millis(300));
    let server = TestServer::builder().upstream(upstream).start().await;
    let mut client = server.connect().await;
    client.get_until_known().await;
    let gone = relayer.go().await;
    let old = client.get_until("/state", |response| response.status != 200).await;
    old.check_error(503, "NotReady", "the relayer has not responded for 300ms");
    assert_eq!(old.header("retry-after"), "1");
    for path in ["/version", "/chains", "/chain/ibc-0"] {
        let response = client.get(path).await;
        assert_eq!((response.status.as_u16(), response.header("warning").is_empty()), (200, false));
    }
    let _relayer = gone.come_back();
    let back = client.get_until("/state", |response| response.status == 200).await;
    assert_eq!((back.text(), back.header("age")), (success(&script.state).as_str(), ""));
}

#[tokio::test]
async fn added_and_removed_chains_are_followed() {
    let relayer = Relayer::start(Script::of_0_7());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    client.get_until_known().await;
    relayer.change(|script| {
        let mut new = script.chains[0].clone();
        new["id"] = "new".into();
        script.chains.push(new);
        script.state = state(&["ibc-0", "ibc-1", "new"], 1, false);
    });
    let chains = r#"{"status":"success","result":["ibc-0","ibc-1","new"]}"#;
    client.get_until("/chains", |response| response.text() == chains).await;
    client.get_until("/chain/new", |response| response.status == 200).await;
    relayer.change(|script| {
        script.chains.remove(0);
        script.state = state(&["ibc-1", "new"], 1, false);
    });
    let chains = r#"{"status":"success","result":["ibc-1","new"]}"#;
    client.get_until("/chains", |response| response.text() == chains).await;
    assert_eq!(client.get("/chain/ibc-0").await.status, 404);
}

#[tokio::test]
async fn a_listed_chain_that_does_not_exist_is_left_out() {
    let relayer = Relayer::start(Script::of_0_7());
    relayer.change(|script| script.chains.push(json!({"id": "not/a/path"})));
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let chains = r#"{"status":"success","result":["ibc-0","ibc-1"]}"#;
    server.connect().await.get_until("/chains", |response| response.text() == chains).await;
}

#[tokio::test]
async fn an_unreadable_chain_does_not_delay_the_state() {
    let relayer = Relayer::start(Script::of_0_7());
    relayer.change(|script| script.broken_chain = Some("ibc-1".to_owned()));
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    let request_count = || relayer.seen().paths.get("/state").copied().unwrap_or_default();
    let response =
        client.get_until("/state", |response| response.status == 200 && request_count() > 20).await;
    assert_eq!(response.header("age"), "", "the state is fresh");
    let chains = r#"{"status":"success","result":["ibc-0","ibc-1"]}"#;
    client.get_until("/chains", |response| response.text() == chains).await;
    client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    assert_eq!(client.get("/chain/ibc-1").await.status, 503);
    relayer.change(|script| script.broken_chain = None);
    client.get_until("/chain/ibc-1", |response| response.status == 200).await;
}

#[tokio::test]
async fn a_chain_that_becomes_unreadable_keeps_its_last_state() {
    let relayer = Relayer::start(Script::of_0_7());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    let before = client.get_until("/chain/ibc-1", |response| response.status == 200).await;
    relayer.change(|script| {
        script.broken_chain = Some("ibc-1".to_owned());
        script.chains[0]["max_gas"] = 7.into();
        // A change of the connected chains makes the upstream request all chains again.
        script.state = state(&["ibc-0"], 1, false);
    });
    client.get_until("/chain/ibc-0", |response| response.text().contains(r#""max_gas":7,"#)).await;
    assert_eq!(client.get("/chain/ibc-1").await.body, before.body);
    let chains = r#"{"status":"success","result":["ibc-0","ibc-1"]}"#;
    client.get("/chains").await.check(200, chains);
}

/// A hostile response of one endpoint must not affect the server, nor the freshness of
/// its state.
#[tokio::test]
async fn hostile_responses_hide_only_themselves() {
    let long = "A\u{202e}".repeat(1 << 20);
    let error = json!({"status": "error", "result": {"name": "X", "msg": long}}).to_string();
    let deep = format!(r#"{{"status":"success","result":{}"#, "[".repeat(1 << 20));
    let nothing = r#"{"status":"success","result":{"type":"X"}}"#;
    for body in [error.as_str(), &deep, nothing, "]garbage["] {
        let relayer = Relayer::start(Script::of_0_7());
        let body: std::sync::Arc<[u8]> = body.as_bytes().into();
        relayer.change(|script| {
            script.bodies.insert("/chain/ibc-0".to_owned(), body.clone());
            script.bodies.insert("/version".to_owned(), body);
        });
        let limit = Upstream { body_limit: 16 << 20, ..relayer.upstream() };
        let server = TestServer::builder().upstream(limit).start().await;
        let mut client = server.connect().await;
        client.get_until("/chain/ibc-1", |response| response.status == 200).await;
        assert_eq!(client.get("/chain/ibc-0").await.status, 503);
        client.get_until("/state", |response| response.status == 200).await;
        relayer.change(|script| script.bodies.clear());
        client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    }
}

#[tokio::test]
async fn identifiers_that_cannot_be_in_a_path_are_left_out() {
    let relayer = Relayer::start(Script::of_0_7());
    let long = "x".repeat(5000);
    let ids = json!(["..", ".", "", "ibc-0", "a\u{202e}b", long]);
    relayer.change(|script| {
        script.bodies.insert("/chains".to_owned(), success(&ids).into_bytes().into());
        let mut chain = script.chains[0].clone();
        chain["id"] = "a\u{202e}b".into();
        let path = "/chain/a%E2%80%AEb".to_owned();
        script.bodies.insert(path, success(&chain).into_bytes().into());
    });
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    let chains = success(&json!(["ibc-0", "a\u{202e}b"]));
    client
        .get_until("/chains", |response| {
            response.status == 200
                && serde_json::from_str::<Value>(response.text()).unwrap()
                    == serde_json::from_str::<Value>(&chains).unwrap()
        })
        .await;
    client.get_until("/chain/a%E2%80%AEb", |response| response.status == 200).await;
    assert!(!relayer.seen().paths.contains_key("/chain/"));
}

#[tokio::test]
async fn a_bounded_number_of_chains_is_requested() {
    let relayer = Relayer::start(Script::of_0_7());
    let ids: Vec<_> = (0..20_000).map(|id| format!("c{id}")).collect();
    let body = success(&json!(ids));
    relayer.change(|script| {
        drop(script.bodies.insert("/chains".to_owned(), body.into_bytes().into()));
    });
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    // None of them exists, so the list is empty when all have been requested.
    let empty = r#"{"status":"success","result":[]}"#;
    server.connect().await.get_until("/chains", |response| response.text() == empty).await;
    let request_count =
        relayer.seen().paths.keys().filter(|path| path.starts_with("/chain/")).count();
    assert_eq!(request_count, 1000);
}

/// The only blocking thread is occupied, so no response can be parsed until it is free.
#[test]
fn responses_are_parsed_off_the_runtimes_threads() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (free, taken) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || taken.recv());
        let relayer = Relayer::start(Script::of_0_7());
        let publisher = relayer_rest_host::state::StatePublisher::new();
        let reader = publisher.reader();
        let is_known = || reader.snapshot().status().value().is_ok();
        let polling = tokio::spawn(relayer.upstream().run(publisher));
        until("the first request", || relayer.seen().paths.contains_key("/version")).await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(!is_known());
        }
        assert_eq!(relayer.seen().paths.values().sum::<u32>(), 1, "the next request waits");
        drop(free);
        until("the state is known", &is_known).await;
        polling.abort();
    });
}
