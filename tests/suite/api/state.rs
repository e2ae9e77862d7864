//! Do publications reach clients immediately and completely?

use std::path::Path;
use std::time::Duration;

use relayer_rest_host::module::{DEFAULT_MODULE, Limits, MODULE_1_13, Module, RunPermit};
use relayer_rest_host::state::{
    ChainConfig, ChainKind, Component, NotReady, Object, OtherObject, RelayerState, StatePublisher,
    Value, Worker, WorkerData, parse_state_file,
};
use relayer_rest_tests::server::{TestServer, engine, request};
use serde_json::json;
use tokio::sync::oneshot::error::TryRecvError;

#[tokio::test]
async fn an_unknown_state_is_not_ready() {
    let server = TestServer::builder().without_state().start().await;
    for path in ["/state", "/chains", "/chain/ibc-0"] {
        let response = server.get(path).await;
        response.check_error(503, "NotReady", "the relayer's state is not known yet");
        assert_eq!(response.header("retry-after"), "1");
    }
    assert_eq!(server.get("/version").await.status, 200);
}

#[tokio::test]
async fn an_empty_list_of_chains_differs_from_an_unknown_one() {
    let server = TestServer::builder().without_state().start().await;
    server.publisher.set_chains(Vec::new()).unwrap();
    server.get("/chains").await.check(200, r#"{"status":"success","result":[]}"#);
    assert_eq!(server.get("/chain/ibc-0").await.status, 404);
    let reason = NotReady { message: "gone".into(), ..NotReady::default() };
    server.publisher.set_chains_not_ready(reason);
    server.get("/chains").await.check_error(503, "NotReady", "gone");
}

#[tokio::test]
async fn the_reason_for_not_ready_is_in_the_response() {
    let server = TestServer::start().await;
    let reason = NotReady { message: "gone".into(), retry_after: Duration::from_millis(2500) };
    server.publisher.set_not_ready(reason);
    let response = server.get("/state").await;
    response.check_error(503, "NotReady", "gone");
    assert_eq!(response.header("retry-after"), "3");
    assert_eq!(server.get("/chains").await.status, 200);
}

#[tokio::test]
async fn the_relayers_version_is_shown_once_known() {
    let server = TestServer::start().await;
    let component = Component { name: "ibc-relayer".into(), version: "1.13.1+abc".into() };
    server.publisher.set_components(vec![component]);
    let version = env!("CARGO_PKG_VERSION");
    let body = format!(
        r#"[{{"name":"ibc-relayer","version":"1.13.1+abc"}},{{"name":"ibc-relayer-rest","version":"{version}"}}]"#
    );
    server.get("/version").await.check(200, &body);
}

#[tokio::test]
async fn changes_are_visible_to_the_next_request() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    server.publisher.set_chain(ChainConfig::new("new", ChainKind::Namada));
    client
        .get("/chains")
        .await
        .check(200, r#"{"status":"success","result":["ibc-0","ibc-1","new"]}"#);
    assert_eq!(client.get("/chain/new").await.status, 200);
    server.publisher.remove_chain(&"new".into());
    client.get("/chains").await.check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
    assert_eq!(client.get("/chain/new").await.status, 404);
    server.publisher.update_state(|state| state.workers.clear());
    let body = r#"{"status":"success","result":{"chains":["ibc-0","ibc-1"],"workers":{}}}"#;
    client.get("/state").await.check(200, body);
}

#[tokio::test]
async fn workers_of_every_kind_are_shown_in_order() {
    let server = TestServer::builder().without_state().start().await;
    let other = OtherObject {
        kind: "Future".into(),
        fields: vec![
            ("flag".into(), Value::Boolean(true)),
            ("count".into(), Value::Natural(u64::MAX)),
            ("offset".into(), Value::Integer(i64::MIN)),
            ("rate".into(), Value::Number(0.000_001)),
            ("text".into(), Value::Text("\"\u{1}ü".into())),
            ("none".into(), Value::Null),
        ],
    };
    let objects = [
        Object::Other(other.clone()),
        Object::CrossChainQuery {
            src_chain_id: "a".into(),
            dst_chain_id: "b".into(),
            query_id: "7".into(),
            connection_id: "connection-7".into(),
        },
        Object::Wallet { chain_id: "b".into() },
        Object::Wallet { chain_id: "a".into() },
        Object::Packet {
            dst_chain_id: "b".into(),
            src_chain_id: "a".into(),
            src_channel_id: "channel-1".into(),
            src_port_id: "transfer".into(),
        },
        Object::Connection {
            dst_chain_id: "b".into(),
            src_chain_id: "a".into(),
            src_connection_id: "connection-1".into(),
        },
        Object::Channel {
            dst_chain_id: "b".into(),
            src_chain_id: "a".into(),
            src_channel_id: "channel-1".into(),
            src_port_id: "transfer".into(),
        },
        Object::Client {
            dst_chain_id: "b".into(),
            dst_client_id: "07-tendermint-1".into(),
            src_chain_id: "a".into(),
        },
    ];
    let data = [
        Some(WorkerData::Other(other)),
        Some(WorkerData::Client { misbehaviour: true, refresh: false }),
        None,
    ];
    let workers = (0..)
        .zip(objects)
        .map(|(id, object)| Worker {
            id,
            object,
            data: data[usize::try_from(id).unwrap() % 3].clone(),
        })
        .collect();
    server.publisher.set_state(RelayerState { chains: vec!["b".into(), "a".into()], workers });
    let response = server.get("/state").await;
    let body = concat!(
        r#"{"status":"success","result":{"chains":["a","b"],"workers":{"#,
        r#""Client":[{"id":7,"object":{"type":"Client","dst_chain_id":"b","dst_client_id":"07-tendermint-1","src_chain_id":"a"}}],"#,
        r#""Channel":[{"id":6,"object":{"type":"Channel","dst_chain_id":"b","src_chain_id":"a","src_channel_id":"channel-1","src_port_id":"transfer"}}],"#,
        r#""Connection":[{"id":5,"object":{"type":"Connection","dst_chain_id":"b","src_chain_id":"a","src_connection_id":"connection-1"}}],"#,
        r#""Packet":[{"id":4,"object":{"type":"Packet","dst_chain_id":"b","src_chain_id":"a","src_channel_id":"channel-1","src_port_id":"transfer"}}],"#,
        r#""Wallet":[{"id":3,"object":{"type":"Wallet","chain_id":"a"}},{"id":2,"object":{"type":"Wallet","chain_id":"b"}}],"#,
        r#""CrossChainQuery":[{"id":1,"object":{"type":"CrossChainQuery","src_chain_id":"a","dst_chain_id":"b","query_id":"7","connection_id":"connection-7"}}],"#,
        r#""Future":[{"id":0,"object":{"type":"Future","flag":true,"count":18446744073709551615,"offset":-9223372036854775808,"rate":1e-6,"text":"\"\u0001ü","none":null}}]"#,
        r"}}}",
    );
    response.check(200, body);
}

#[tokio::test]
async fn a_state_of_fifty_thousand_workers_is_shown_completely() {
    let server = TestServer::builder().without_state().start().await;
    let workers = (0..50_000)
        .map(|id| Worker {
            id,
            object: Object::Wallet { chain_id: format!("{id:05}").into() },
            data: None,
        })
        .collect();
    server.publisher.set_state(RelayerState { chains: Vec::new(), workers });
    let response = server.get("/state").await;
    let state: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    let wallets = state["result"]["workers"]["Wallet"].as_array().unwrap();
    assert_eq!(wallets.len(), 50_000);
    assert_eq!(wallets[49_999]["object"]["chain_id"], "49999");
}

#[tokio::test]
async fn requests_see_consistent_states_during_publications() {
    let server = TestServer::builder().without_state().start().await;
    let state = |workers: u64| RelayerState {
        chains: vec![format!("chain-{workers}").into()],
        workers: (0..workers)
            .map(|id| Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None })
            .collect(),
    };
    server.publisher.set_state(state(0));
    let publisher = server.publisher.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::task::spawn_blocking(move || {
        let mut count = 0;
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            count += 1;
            publisher.set_state(state(count % 100));
        }
        count
    });
    let mut client = server.connect().await;
    for _ in 0..300 {
        let response: serde_json::Value =
            serde_json::from_slice(&client.get("/state").await.body).unwrap();
        let wallets = response["result"]["workers"]["Wallet"].as_array().map_or(0, Vec::len);
        assert_eq!(response["result"]["chains"][0], format!("chain-{wallets}"));
    }
    stop.send(()).unwrap();
    assert!(writer.await.unwrap() > 0);
}

/// Returns a source's state with the first of so many workers, each with this object and
/// these settings, and with chains of the longest names.
fn state_of(count: usize, object: &serde_json::Value, data: &serde_json::Value) -> RelayerState {
    let chains: Vec<_> = (0..1000).map(|number| format!("{number:\u{1}>1024}")).collect();
    let chains = json!(chains);
    let worker = json!({"id": 150_000, "object": object, "data": data}).to_string();
    let workers = vec![worker; count].join(",");
    let text = format!(r#"{{"chains":{chains},"workers":{{"Any":[{workers}]}}}}"#);
    parse_state_file(Path::new("state.json"), Ok(text.into_bytes())).unwrap()
}

/// The bundled modules can respond with each state that a source publishes, and the state
/// is not much smaller than the documented bounds.
#[tokio::test]
async fn the_largest_state_of_a_source_is_served_under_default_limits() {
    let long = |byte: &str| byte.repeat(1024);
    let query = |text: &str| {
        json!({"type": "CrossChainQuery", "src_chain_id": text, "dst_chain_id": text,
            "query_id": text, "connection_id": text})
    };
    let fields = |text: &str, value: &serde_json::Value| {
        let mut fields = json!({"type": text});
        for number in 0..7 {
            fields[number.to_string()] = value.clone();
        }
        fields
    };
    let client = json!({"type": "Client", "dst_chain_id": "ibc-1", "src_chain_id": "ibc-0",
        "dst_client_id": "07-tendermint-150000"});
    let settings = json!({"type": "Client", "misbehaviour": true, "refresh": true});
    let wallet = json!({"type": "Wallet", "chain_id": "a"});
    let null = serde_json::Value::Null;
    // The number of workers in a source, and the least and the most that are served.
    let cases = [
        (149_999, 149_999, 149_999, wallet.clone(), null.clone()),
        (250_000, 150_000, 150_000, wallet.clone(), null.clone()),
        (200_000, 90_000, 150_000, client.clone(), null.clone()),
        (200_000, 60_000, 150_000, client, settings.clone()),
        (10_000, 3_000, 5_000, query(&long("a")), null.clone()),
        (10_000, 1_500, 3_000, query(&long("\"")), settings),
        (2_000, 500, 1_000, query(&long("\u{1}")), null.clone()),
        (100_000, 20_000, 60_000, fields("New", &null), null.clone()),
        (60_000, 10_000, 30_000, fields("New", &null), fields("Other", &json!("a"))),
    ];
    // Only the time depends on the machine.
    let limits = Limits { time: Duration::from_mins(10), ..Limits::default() };
    let modules = [DEFAULT_MODULE, MODULE_1_13]
        .map(|bytes| Module::from_bytes(&engine(&limits), "bundled", bytes).unwrap());
    for (number, (count, least, most, object, data)) in cases.into_iter().enumerate() {
        let state = state_of(count, &object, &data);
        let workers = state.workers.len();
        assert!((least..=most).contains(&workers), "case {number}: {workers} workers");
        let publisher = StatePublisher::new();
        publisher.set_state(state);
        for module in &modules {
            let permit = RunPermit::acquire(module).await.unwrap();
            let run = permit.execute(request("GET", "/state", &[]), publisher.reader().snapshot());
            let output = run.await.unwrap_or_else(|error| panic!("case {number}: {error}"));
            assert_eq!(output.response.status(), 200);
            let json: serde_json::Value = serde_json::from_slice(output.response.body()).unwrap();
            let listed = json["result"]["workers"].as_object().unwrap().values();
            let listed: usize = listed.map(|workers| workers.as_array().unwrap().len()).sum();
            assert_eq!(listed, workers, "case {number}");
        }
    }
}
