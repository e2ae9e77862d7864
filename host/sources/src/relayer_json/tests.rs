use relayer_rest_state::{
    ChainKind, Component, EventSource, FilterPolicy, Object, Ratio, Value, WorkerData,
};
use serde_json::json;

use super::{Read, RelayerDialect, chain, chain_ids, state, state_file, version};

/// A chain as version 0.7 of the relayer shows it.
const CHAIN_0_7: &str = r#"{"status":"success","result":{"id":"ibc-0","rpc_addr":"http://127.0.0.1:26657/","websocket_addr":"ws://127.0.0.1:26657/websocket","grpc_addr":"http://127.0.0.1:9090/","rpc_timeout":"10s","account_prefix":"cosmos","key_name":"testkey","store_prefix":"ibc","max_gas":3000000,"gas_adjustment":0.1,"max_msg_num":30,"max_tx_size":2097152,"clock_drift":"5s","trusting_period":"14days","trust_threshold":{"numerator":"1","denominator":"3"},"gas_price":{"price":0.001,"denom":"stake"},"packet_filter":{"policy":"deny","list":[["transfer","channel-0"]]}}}"#;

/// A chain as version 1.13 of the relayer shows it.
const CHAIN_1_13: &str = r#"{"status":"success","result":{"type":"CosmosSdk","id":"ibc-0","rpc_addr":"http://127.0.0.1:26657/","grpc_addr":"http://127.0.0.1:9090/","event_source":{"mode":"push","url":"ws://127.0.0.1:26657/websocket","batch_delay":"500ms"},"rpc_timeout":"10s","trusted_node":false,"account_prefix":"cosmos","key_name":"testkey","key_store_type":"Test","key_store_folder":null,"store_prefix":"ibc","default_gas":100000,"max_gas":4000000,"genesis_restart":null,"gas_adjustment":null,"gas_multiplier":1.1,"fee_granter":null,"max_msg_num":30,"max_tx_size":2097152,"max_grpc_decoding_size":33554432,"query_packets_chunk_size":50,"clock_drift":"5s","max_block_time":"30s","trusting_period":"14days","client_refresh_rate":"1/3","ccv_consumer_chain":false,"memo_prefix":"","memo_overwrite":null,"sequential_batch_tx":false,"trust_threshold":{"numerator":2,"denominator":3},"gas_price":{"price":0.025,"denom":"stake"},"packet_filter":{"policy":"allowall","min_fees":{}},"dynamic_gas_price":{"enabled":false,"multiplier":1.1,"max":0.6},"address_type":{"derivation":"cosmos"},"compat_mode":null,"clear_interval":null,"excluded_sequences":{},"allow_ccq":true}}"#;

#[test]
fn versions_are_read_bare_and_in_an_envelope() {
    let entries = json!([
        {"name": "ibc-relayer-rest", "version": "0.2.0"},
        {"name": "other", "version": "1"},
        {"name": "ibc-relayer", "version": "1.13.1"},
    ]);
    let component =
        |name: &str, version: &str| Component { name: name.into(), version: version.into() };
    let expected = vec![component("ibc-relayer", "1.13.1"), component("other", "1")];
    let enveloped = json!({"status": "success", "result": entries});
    let bare = version(entries.to_string().as_bytes()).unwrap();
    assert_eq!(bare, (expected.clone(), RelayerDialect::V0_7));
    let enveloped = version(enveloped.to_string().as_bytes()).unwrap();
    assert_eq!(enveloped, (expected, RelayerDialect::V1_13));
}

#[test]
fn chains_of_both_dialects_are_read() {
    let old = chain(CHAIN_0_7.as_bytes()).unwrap();
    let today = chain(CHAIN_1_13.as_bytes()).unwrap();
    assert_eq!((&old.unread, &today.unread), (&Vec::new(), &Vec::new()));
    for chain in [&old.value, &today.value] {
        assert_eq!(chain.kind, ChainKind::CosmosSdk);
        let Some(EventSource::Push { url, .. }) = &chain.event_source else {
            panic!("{chain:?}");
        };
        assert_eq!(url, "ws://127.0.0.1:26657/websocket");
        assert!((chain.gas_multiplier.unwrap() - 1.1).abs() < 1e-9);
    }
    assert_eq!(old.value.trust_threshold, Ratio::new(1, 3));
    assert!(
        matches!(old.value.packet_filter.unwrap().policy, FilterPolicy::Deny(list) if list.len() == 1)
    );
    assert_eq!(today.value.trust_threshold, Ratio::new(2, 3));
    assert_eq!(today.value.max_grpc_decoding_size, Some(33_554_432));
    assert_eq!((old.value.allow_ccq, today.value.allow_ccq), (None, Some(true)));
}

#[test]
fn unreadable_fields_are_left_out_and_named() {
    let body = json!({"status": "success", "result": {
        "id": "c", "max_gas": "lots", "rpc_timeout": {"secs": 1, "nanos": 0},
        "gas_price": {"price": true, "denom": "a"}, "max_msg_num": 30, "new": [1],
    }});
    let Read { value, unread } = chain(body.to_string().as_bytes()).unwrap();
    assert_eq!((value.max_gas, value.rpc_timeout, value.gas_price), (None, None, None));
    assert_eq!(value.max_msg_num, Some(30));
    let mut fields: Vec<_> = unread.iter().map(|unread| unread.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["gas_price.price", "max_gas", "rpc_timeout"]);
}

#[test]
fn a_chain_keeps_no_secrets() {
    let body = json!({"status": "success", "result": {
        "type": "Penumbra", "id": "p", "rpc_addr": "https://user:hunter2@h",
        "kms_config": {"spend_key": "hunter2"},
    }});
    let Read { value, unread } = chain(body.to_string().as_bytes()).unwrap();
    assert_eq!(value.rpc_addr.as_deref(), Some("https://h/"));
    assert!(!format!("{value:?}{unread:?}").contains("hunter2"));
}

#[test]
fn states_of_both_dialects_are_read() {
    let object =
        json!({"type": "Client", "dst_chain_id": "b", "dst_client_id": "c", "src_chain_id": "a"});
    let data = json!({"type": "Client", "misbehaviour": true, "refresh": false});
    let body = json!({"status": "success", "result": {"chains": ["a", "b"], "workers": {"Client": [
        {"id": 1, "object": object},
        {"id": 2, "object": object, "data": data},
        {"id": 3, "object": object, "data": null},
    ]}}});
    let Read { value, unread } = state(body.to_string().as_bytes()).unwrap();
    assert_eq!(unread, []);
    assert_eq!(value.workers.len(), 3);
    let data = Some(WorkerData::Client { misbehaviour: true, refresh: false });
    assert_eq!(value.workers[1].data, data);
    assert_eq!((&value.workers[0].data, &value.workers[2].data), (&None, &None));
}

#[test]
fn unknown_kinds_keep_their_plain_fields_in_order() {
    let body = r#"{"status":"success","result":{"chains":[],"workers":{"New":[{"id":1,"object":{"z":1,"type":"New","a":-1,"m":0.5,"t":"x","n":null,"deep":{"x":1},"b":true}}]}}}"#;
    let Read { value, unread } = state(body.as_bytes()).unwrap();
    let Object::Other(other) = &value.workers[0].object else { panic!("{value:?}") };
    assert_eq!(other.kind.as_ref(), "New");
    let fields: Vec<_> = other.fields.iter().map(|(name, value)| (name.as_ref(), value)).collect();
    assert_eq!(
        fields,
        [
            ("z", &Value::Natural(1)),
            ("a", &Value::Integer(-1)),
            ("m", &Value::Number(0.5)),
            ("t", &Value::Text("x".into())),
            ("n", &Value::Null),
            ("b", &Value::Boolean(true)),
        ]
    );
    assert_eq!(unread[0].field, "workers.New.object.deep");
}

#[test]
fn fields_beyond_a_known_kind_are_named() {
    let body = r#"{"status":"success","result":{"chains":[],"workers":{"Wallet":[{"id":1,"object":{"type":"Wallet","chain_id":"a","balance":7}}]}}}"#;
    let Read { value, unread } = state(body.as_bytes()).unwrap();
    assert_eq!(value.workers[0].object, Object::Wallet { chain_id: "a".into() });
    assert_eq!(unread[0].field, "workers.Wallet.object.balance");
}

#[test]
fn errors_in_responses_name_the_position() {
    for (body, expected) in [
        ("", "line 1, column 0: EOF while parsing a value"),
        ("<html>", "line 1, column 1: expected value"),
        (
            "{\"status\":\"success\",\n\"result\":{\"chains\":[],",
            "line 2, column 22: result: EOF while parsing",
        ),
        (r#"{"status":"success"}"#, "line 1, column 20: missing field `result`"),
        (
            r#"{"status":"maybe","result":{"chains":[],"workers":{}}}"#,
            "line 1, column 1: status: is 'maybe'; expected 'success'",
        ),
        (
            r#"{"status":"success","result":{"chains":[1],"workers":{}}}"#,
            "line 1, column 41: result.chains[0]: invalid type: integer `1`, expected a string",
        ),
        (
            r#"{"status":"success","result":{"chains":[],"workers":{"Client":[{"id":1,"object":{"type":"Client"}}]}}}"#,
            "line 1, column 98: result.workers.Client[0].object: missing field `dst_chain_id`",
        ),
        (
            r#"{"status":"success","result":{"chains":[],"workers":{"Client":[{"id":-1,"object":{}}]}}}"#,
            "line 1, column 71: result.workers.Client[0].id: invalid value: integer `-1`",
        ),
        (
            r#"{"status":"success","result":{"chains":[],"workers":{}}} x"#,
            "line 1, column 58: trailing characters",
        ),
        (
            r#"{"status":"error","result":{"name":"Boom","msg":"bang"}}"#,
            "the relayer returned Boom: bang",
        ),
    ] {
        let message = state(body.as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{body}: {message}");
    }
    chain_ids(br#"{"status":"success","result":{}}"#).unwrap_err();
    chain(br#"{"status":"success","result":{"max_gas":1}}"#).unwrap_err();
    chain(br#"{"status":"success","result":[]}"#).unwrap_err();
    version(br#"[{"name":"ibc-relayer"}]"#).unwrap_err();
    version(br"[]").unwrap_err();
    version(br#"[{"name":"ibc-relayer-rest","version":"1"}]"#).unwrap_err();
}

#[test]
fn a_file_holds_a_result_with_or_without_its_envelope() {
    let bare = r#"{"chains":["a"],"workers":{}}"#;
    let enveloped = format!(r#"{{"status":"success","result":{bare}}}"#);
    let expected = state_file(bare.as_bytes()).unwrap();
    assert_eq!(expected.value.chains, ["a".into()]);
    assert_eq!(state_file(enveloped.as_bytes()).unwrap(), expected);
    let message = state_file(b"{\"chains\":[],\n\"workers\":[]}").unwrap_err().to_string();
    assert!(message.starts_with("line 2, column 10: workers: invalid type"), "{message}");
}
