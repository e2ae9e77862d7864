use std::time::Duration;

use relayer_rest_state::{
    AddressType, ChainConfig, ChainKind, ChannelMinFees, DynamicGasPrice, EventSource,
    ExcludedSequences, ExtensionOption, FilterPolicy, MinFee, Ratio,
};

use super::{HermesConfig, Rest, TelemetryServer};

/// Parses a configuration with one chain that has these lines, and returns the chain.
#[track_caller]
fn chain(lines: &str) -> ChainConfig {
    HermesConfig::parse(&format!("[[chains]]\nid = 'c'\n{lines}")).unwrap().chains.remove(0)
}

#[track_caller]
fn refusal(lines: &str) -> String {
    HermesConfig::parse(&format!("[[chains]]\nid = 'c'\n{lines}")).unwrap_err().to_string()
}

#[test]
fn an_empty_file_has_no_chains_and_serves_nothing() {
    let config = HermesConfig::parse("").unwrap();
    assert!(config.chains.is_empty());
    assert_eq!(config.rest, Rest { enabled: None, host: "127.0.0.1".into(), port: 3000 });
}

#[test]
fn the_telemetry_is_at_the_address_of_its_section() {
    let url = |section: &str| {
        HermesConfig::parse(&format!("[telemetry]\n{section}")).unwrap().telemetry.url()
    };
    assert_eq!(HermesConfig::parse("").unwrap().telemetry, TelemetryServer::default());
    assert_eq!(url(""), None);
    assert_eq!(url("enabled = false\nport = 1"), None);
    for (section, expected) in [
        ("", "http://127.0.0.1:3001/metrics"),
        ("host = 'relayer'\nport = 4000", "http://relayer:4000/metrics"),
        ("host = '0.0.0.0'", "http://127.0.0.1:3001/metrics"),
        ("host = '::'", "http://[::1]:3001/metrics"),
        ("host = 'fd00::1'", "http://[fd00::1]:3001/metrics"),
    ] {
        assert_eq!(url(&format!("enabled = true\n{section}")).unwrap(), expected);
    }
}

#[test]
fn unset_fields_of_a_cosmos_chain_have_the_relayers_defaults() {
    for kind in ["", "type = 'CosmosSdk'", "type = 'Namada'"] {
        let chain = chain(kind);
        assert_eq!(chain.rpc_timeout, Some(Duration::from_secs(10)));
        assert_eq!(chain.max_gas, Some(400_000));
        assert_eq!(chain.gas_multiplier, Some(1.1));
        assert_eq!(chain.max_msg_num, Some(30));
        assert_eq!(chain.max_tx_size, Some(2_097_152));
        assert_eq!(chain.clock_drift, Some(Duration::from_secs(5)));
        assert_eq!(chain.trusting_period, None);
        assert_eq!(chain.trust_threshold, Ratio::new(2, 3));
        assert_eq!(chain.packet_filter.unwrap().policy, FilterPolicy::AllowAll);
        assert_eq!(chain.store_prefix.as_deref(), Some("ibc"));
        assert_eq!(chain.gas_price, None);
        assert_eq!(chain.event_source, None);
    }
}

#[test]
fn a_penumbra_chain_has_a_filter_and_no_gas_or_prefixes() {
    let chain = chain("type = 'Penumbra'\nstub_key_name = 'stub'");
    assert_eq!(chain.kind, ChainKind::Penumbra);
    assert_eq!(chain.key_name.as_deref(), Some("stub"));
    assert_eq!((chain.account_prefix, chain.store_prefix), (None, None));
    assert_eq!((chain.max_gas, chain.gas_multiplier, chain.gas_price), (None, None, None));
    assert_eq!(chain.packet_filter.unwrap().policy, FilterPolicy::AllowAll);
    assert_eq!(chain.address_type, None);
    assert_eq!(chain.query_packets_chunk_size, Some(50));
    assert_eq!(chain.max_block_time, Some(Duration::from_secs(30)));
    assert_eq!(chain.trust_threshold, Ratio::new(2, 3));
}

#[test]
fn an_unknown_kind_keeps_its_name_and_its_fields() {
    let chain = chain("type = 'Future'\nmax_gas = 7\nsomething = { new = true }");
    assert_eq!(chain.kind, ChainKind::Other("Future".into()));
    assert_eq!((chain.max_gas, chain.gas_multiplier), (Some(7), None));
}

#[test]
fn trust_thresholds_are_read_in_every_form_and_reduced() {
    for (text, expected) in [
        ("{ numerator = '1', denominator = '3' }", (1, 3)),
        ("{ numerator = 2, denominator = 6 }", (1, 3)),
        ("{ numerator = '2', denominator = 3 }", (2, 3)),
        ("'2/3'", (2, 3)),
        ("' 4 / 6 '", (2, 3)),
    ] {
        let chain = chain(&format!("trust_threshold = {text}"));
        assert_eq!(chain.trust_threshold, Ratio::new(expected.0, expected.1), "{text}");
    }
    for text in ["'2'", "'2/x'", "'3/2'", "'1/0'", "{ numerator = -1, denominator = 3 }", "1"] {
        let message = refusal(&format!("trust_threshold = {text}"));
        assert!(message.contains("chain 'c': trust_threshold"), "{text}: {message}");
    }
}

#[test]
fn the_event_source_is_read_in_every_form() {
    let push = |url: &str, milliseconds| {
        let batch_delay = Duration::from_millis(milliseconds);
        Some(EventSource::Push { url: url.into(), batch_delay })
    };
    let pull = |seconds, max_retries| {
        Some(EventSource::Pull { interval: Duration::from_secs(seconds), max_retries })
    };
    for (text, expected) in [
        ("websocket_addr = 'ws://h:1/websocket'", push("ws://h:1/websocket", 500)),
        ("event_source = { mode = 'push', url = 'ws://h' }", push("ws://h/", 500)),
        (
            "event_source = { mode = 'push', url = 'wss://h:443', batch_delay = '1s' }",
            push("wss://h/", 1000),
        ),
        ("event_source = { mode = 'push' }\nwebsocket_addr = 'ws://h'", push("ws://h/", 500)),
        ("event_source = { mode = 'push' }", None),
        ("event_source = { mode = 'pull' }", pull(1, 4)),
        ("event_source = { mode = 'pull', interval = '2s', max_retries = 1 }", pull(2, 1)),
    ] {
        assert_eq!(chain(text).event_source, expected, "{text}");
    }
    let message = refusal("event_source = { mode = 'wait' }");
    assert!(message.contains("event_source.mode: unknown variant `wait`"), "{message}");
}

#[test]
fn the_gas_multiplier_is_read_in_every_form() {
    for (text, expected) in [
        ("gas_multiplier = 2", 2.0),
        ("gas_multiplier = 1.3", 1.3),
        ("gas_adjustment = 0.1", 1.1),
        ("gas_adjustment = 1", 2.0),
        ("gas_adjustment = 0.14", 1.14),
        ("gas_adjustment = 0.1\ngas_multiplier = 1.5", 1.5),
    ] {
        let multiplier = chain(text).gas_multiplier.unwrap();
        assert_eq!(multiplier.to_string(), expected.to_string(), "{text}");
    }
}

#[test]
fn urls_are_normalized_and_lose_their_secrets() {
    for (text, expected) in [
        ("http://h", "http://h/"),
        ("https://h:443", "https://h/"),
        ("http://h:80/a", "http://h/a"),
        ("http://h:443", "http://h:443/"),
        ("tcp://h:1", "tcp://h:1"),
        ("https://user:secret@h/x", "https://h/x"),
        ("https://:secret@h", "https://h/"),
        ("https://secret@h", "https://h/"),
        ("http://[::1]:9090", "http://[::1]:9090/"),
    ] {
        let chain = chain(&format!("rpc_addr = '{text}'"));
        assert_eq!(chain.rpc_addr.as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn invalid_urls_are_rejected_and_not_repeated() {
    for text in [
        "user:hunter2@host:26657",
        "hunter2.example:9090",
        "ftp://hunter2@h",
        "http://",
        "file:///hunter2",
        "tcp:u:hunter2@h",
        "http://u:1/hunter2@h",
        "http://u:?hunter2@h",
        "http://u:#hunter2@h",
        "http://http://u:hunter2@h",
    ] {
        let message = refusal(&format!("rpc_addr = '{text}'"));
        assert!(message.contains("chain 'c': rpc_addr: not a URL"), "{text}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    for key in [
        "event_source",
        "gas_price",
        "packet_filter",
        "max_gas",
        "trusted_node",
        "clock_drift",
        "trust_threshold",
        "address_type.derivation",
        "packet_filter.policy",
        "max_grpc_decoding_size",
        "extension_options",
    ] {
        let message = refusal(&format!("{key} = 'wss://user:hunter\"2@host'"));
        assert!(message.contains("chain 'c': "), "{message}");
        assert!(!message.contains("hunter") && !message.contains("2@"), "{message}");
    }
}

#[test]
fn a_chain_without_an_identifier_is_rejected() {
    for (text, expected) in [
        (
            "[[chains]]\nid = ''",
            "line 2, column 6: chains[0]: id: is empty; set the identifier of the chain",
        ),
        ("[[chains]]\nmax_gas = 1", "line 1, column 1: chains[0]: missing field `id`"),
    ] {
        assert_eq!(HermesConfig::parse(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn durations_beyond_the_contract_are_rejected() {
    assert!(refusal("clock_drift = '600years'").contains("clock_drift: '600years' is longer than"));
    assert!(
        refusal("clock_drift = 5")
            .contains("clock_drift: invalid type: integer `5`, expected a duration")
    );
    assert!(refusal("clock_drift = '5'").contains("clock_drift: '5' is not a duration"));
}

#[test]
fn the_fields_of_1_13_are_read() {
    let chain = chain(
        "key_store_folder = '/keys'\ngenesis_restart = { restart_height = '7', archive_addr = 'http://u:p@a' }\nfee_granter = 'f'\n\
         max_grpc_decoding_size = '32MiB'\nmemo_overwrite = ''\ncompat_mode = '0.38'\n\
         clear_interval = 50\nallow_ccq = false\n\
         dynamic_gas_price = { enabled = true, max = 2 }\n\
         extension_options = [{ type = 'ethermint_dynamic_fee', value = '1' }, { type = 'x', value = 2 }]\n\
         excluded_sequences = { 'channel-1' = [9, '3-7', '11'] }\n\
         address_type = { derivation = 'ethermint', proto_type = { pk_type = '/k' } }\n\
         packet_filter = { policy = 'allowall', min_fees = { '*' = { recv = [{ amount = 1 }] } } }\n",
    );
    let option =
        |name: &str, value: &str| ExtensionOption { name: name.into(), value: value.into() };
    assert_eq!(chain.key_store_folder.as_deref(), Some("/keys"));
    let restart = chain.genesis_restart.unwrap();
    assert_eq!((restart.height, restart.archive_addr.as_deref()), (7, Some("http://a/")));
    assert_eq!(chain.fee_granter.as_deref(), Some("f"));
    assert_eq!(chain.max_grpc_decoding_size, Some(33_554_432));
    assert_eq!(chain.memo_overwrite.as_deref(), Some(""));
    assert_eq!(chain.compat_mode.as_deref(), Some("0.38"));
    assert_eq!((chain.clear_interval, chain.allow_ccq), (Some(50), Some(false)));
    let dynamic = DynamicGasPrice { enabled: true, multiplier: 1.1, max: 2.0 };
    assert_eq!(chain.dynamic_gas_price, Some(dynamic));
    assert_eq!(chain.extension_options, [option("ethermint_dynamic_fee", "1"), option("x", "2")]);
    let excluded =
        ExcludedSequences { channel: "channel-1".into(), ranges: vec![3..=7, 9..=9, 11..=11] };
    assert_eq!(chain.excluded_sequences, [excluded]);
    assert_eq!(chain.address_type, Some(AddressType::Ethermint { pk_type: "/k".into() }));
    let fees =
        ChannelMinFees { channel: "*".into(), recv: vec![MinFee { amount: 1, denom: None }] };
    assert_eq!(chain.packet_filter.unwrap().min_fees, [fees]);
}
