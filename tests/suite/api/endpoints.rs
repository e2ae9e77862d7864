//! Does each endpoint, and each error, have the exact response?

use relayer_rest_tests::server::TestServer;

const CONFIG: &str = include_str!("../../fixtures/hermes-0.7.toml");

const IBC_0: &str = r#"{"status":"success","result":{"id":"ibc-0","rpc_addr":"http://127.0.0.1:26657/","websocket_addr":"ws://127.0.0.1:26657/websocket","grpc_addr":"http://127.0.0.1:9090/","rpc_timeout":"10s","account_prefix":"cosmos","key_name":"testkey","store_prefix":"ibc","max_gas":3000000,"gas_multiplier":1.1,"max_msg_num":30,"max_tx_size":2097152,"clock_drift":"5s","trusting_period":"14days","trust_threshold":{"numerator":"1","denominator":"3"},"gas_price":{"price":0.001,"denom":"stake"},"packet_filter":{"policy":"allowall"}}}"#;

const IBC_1: &str = r#"{"status":"success","result":{"id":"ibc-1","rpc_addr":"http://127.0.0.1:26557/","websocket_addr":"ws://127.0.0.1:26557/websocket","grpc_addr":"http://127.0.0.1:9091/","rpc_timeout":"10s","account_prefix":"cosmos","key_name":"testkey","store_prefix":"ibc","max_gas":3000000,"gas_multiplier":1.1,"max_msg_num":30,"max_tx_size":2097152,"clock_drift":"5s","trusting_period":"14days","trust_threshold":{"numerator":"1","denominator":"3"},"gas_price":{"price":0.001,"denom":"stake"},"packet_filter":{"policy":"deny","list":[["transfer","channel-0"]]}}}"#;

const SAMPLE_STATE: &str = concat!(
    r#"{"status":"success","result":{"chains":["ibc-0","ibc-1"],"workers":{"Client":["#,
    r#"{"id":3,"object":{"type":"Client","dst_chain_id":"ibc-1","dst_client_id":"07-tendermint-0","src_chain_id":"ibc-0"}},"#,
    r#"{"id":4,"object":{"type":"Client","dst_chain_id":"ibc-1","dst_client_id":"07-tendermint-1","src_chain_id":"ibc-0"}},"#,
    r#"{"id":1,"object":{"type":"Client","dst_chain_id":"ibc-0","dst_client_id":"07-tendermint-0","src_chain_id":"ibc-1"}},"#,
    r#"{"id":2,"object":{"type":"Client","dst_chain_id":"ibc-0","dst_client_id":"07-tendermint-1","src_chain_id":"ibc-1"}}"#,
    r"]}}}",
);

#[tokio::test]
async fn version_is_a_bare_array_of_the_relayer_and_the_api() {
    let server = TestServer::start().await;
    let version = env!("CARGO_PKG_VERSION");
    let body = format!(
        r#"[{{"name":"ibc-relayer","version":"{version}"}},{{"name":"ibc-relayer-rest","version":"{version}"}}]"#
    );
    server.get("/version").await.check(200, &body);
}

#[tokio::test]
async fn chains_lists_the_identifiers_of_the_configuration() {
    let server = TestServer::builder().relayer_config(CONFIG).start().await;
    let body = r#"{"status":"success","result":["ibc-0","ibc-1"]}"#;
    server.get("/chains").await.check(200, body);
}

#[tokio::test]
async fn chain_shows_the_configuration_of_each_chain() {
    let server = TestServer::builder().relayer_config(CONFIG).start().await;
    server.get("/chain/ibc-0").await.check(200, IBC_0);
    server.get("/chain/ibc-1").await.check(200, IBC_1);
}

#[tokio::test]
async fn state_shows_the_chains_and_the_workers() {
    let server = TestServer::start().await;
    server.get("/state").await.check(200, SAMPLE_STATE);
}

#[tokio::test]
async fn identifiers_are_percent_decoded() {
    let server = TestServer::builder().relayer_config(CONFIG).start().await;
    server.get("/chain/ibc%2D0").await.check(200, IBC_0);
    server.get("/chain/%69%62%63-0").await.check(200, IBC_0);
}

#[tokio::test]
async fn a_query_string_is_ignored() {
    let server = TestServer::builder().relayer_config(CONFIG).start().await;
    server.get("/chain/ibc-0?x=/chain/ibc-1").await.check(200, IBC_0);
    server.get("/chains?").await.check(200, r#"{"status":"success","result":["ibc-0","ibc-1"]}"#);
}

#[tokio::test]
async fn an_unknown_chain_is_not_found() {
    let server = TestServer::start().await;
    for (path, id) in [("/chain/foo", "foo"), ("/chain/ibc-0%2F", "ibc-0/"), ("/chain/%22", "\\\"")]
    {
        let msg = format!("could not find configuration for chain: {id}");
        server.get(path).await.check_error(404, "ChainConfigNotFound", &msg);
    }
}

#[tokio::test]
async fn an_unknown_path_is_not_found() {
    let server = TestServer::start().await;
    for path in
        ["/", "/chain", "/chain/", "/chains/", "/version/", "/state/x", "/chain/ibc-0/", "//chains"]
    {
        let msg =
            format!("nothing is served at {path}; there are /version, /chains, /chain/:id, /state");
        server.get(path).await.check_error(404, "NotFound", &msg);
    }
}

#[tokio::test]
async fn an_identifier_that_is_not_utf8_is_invalid() {
    let server = TestServer::start().await;
    let msg = "the chain identifier '%ff%fe' is not UTF-8 when percent-decoded";
    server.get("/chain/%ff%fe").await.check_error(400, "InvalidChainId", msg);
}

#[tokio::test]
async fn other_methods_are_not_allowed_on_known_paths() {
    let server = TestServer::start().await;
    for path in ["/version", "/chains", "/chain/ibc-0", "/chain/foo", "/state"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
            let response = server.connect().await.request(method, path).await;
            let msg = format!("{method} is not allowed on {path}; GET and HEAD are");
            response.check_error(405, "MethodNotAllowed", &msg);
            assert_eq!(response.header("allow"), "GET, HEAD");
        }
    }
    let response = server.connect().await.request("POST", "/clear_packets").await;
    assert_eq!(response.status, 404);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = TestServer::start().await;
    for path in ["/version", "/chains", "/chain/ibc-0", "/chain/foo", "/state", "/nothing"] {
        let get = server.get(path).await;
        let head = server.connect().await.request("HEAD", path).await;
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.header("content-length"), get.body.len().to_string(), "{path}");
        assert_eq!(head.header("content-type"), "application/json", "{path}");
        assert!(head.body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn each_identifier_of_chains_works_as_an_id() {
    let server = TestServer::builder()
        .relayer_config(include_str!("../../fixtures/kinds.toml"))
        .start()
        .await;
    let chains: serde_json::Value =
        serde_json::from_slice(&server.get("/chains").await.body).unwrap();
    let ids = chains["result"].as_array().unwrap();
    assert_eq!(ids.len(), 3);
    for id in ids {
        let id = id.as_str().unwrap();
        let path = format!("/chain/{}", id.replace('/', "%2F").replace(' ', "%20"));
        let chain: serde_json::Value =
            serde_json::from_slice(&server.get(&path).await.body).unwrap();
        assert_eq!(chain["result"]["id"], id);
    }
}
