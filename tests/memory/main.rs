//! How much memory do a relayer's response and a waiting miss take, and how many allocations a
//! hit? In a process of its own, since all allocations are counted.

mod hits;
mod misses;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use relayer_rest_host::state::{parse_metrics, read_response};
use relayer_rest_tests::fuzz;
use relayer_rest_tests::heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap::new();

/// The allowance in addition to the part that is proportional to a response, in bytes.
const BASE: usize = 1 << 20;

/// The fields of a chain, none of which is a list.
const FIELDS: [&str; 30] = [
    "rpc_addr",
    "grpc_addr",
    "websocket_addr",
    "rpc_timeout",
    "trusted_node",
    "account_prefix",
    "key_name",
    "key_store_type",
    "key_store_folder",
    "store_prefix",
    "default_gas",
    "max_gas",
    "gas_multiplier",
    "fee_granter",
    "max_msg_num",
    "max_tx_size",
    "max_grpc_decoding_size",
    "query_packets_chunk_size",
    "clock_drift",
    "max_block_time",
    "trusting_period",
    "client_refresh_rate",
    "ccv_consumer_chain",
    "memo_prefix",
    "memo_overwrite",
    "sequential_batch_tx",
    "trust_threshold",
    "compat_mode",
    "clear_interval",
    "allow_ccq",
];

fn success(result: &str) -> String {
    format!(r#"{{"status":"success","result":{result}}}"#)
}

fn state(workers: &str) -> String {
    success(&format!(r#"{{"chains":["a"],"workers":{{{workers}}}}}"#))
}

/// Returns this number of workers, with names like those of a relayer.
fn workers(count: usize) -> String {
    let mut text = r#""Packet":["#.to_owned();
    for id in 0..count {
        let src = id % 50;
        let dst = (id + 1) % 50;
        let comma = if id == 0 { "" } else { "," };
        write!(text, r#"{comma}{{"id":{id},"object":{{"type":"Packet","dst_chain_id":"chain-{dst}","src_chain_id":"chain-{src}","src_channel_id":"channel-{id}","src_port_id":"transfer"}},"data":null}}"#).unwrap();
    }
    text + "]"
}

/// One test, because allocations of other threads would be counted.
#[test]
fn responses_hits_and_misses_take_little_memory() {
    hits::a_hit_allocates_no_more_than_bare_hyper(&HEAP);
    misses::a_pending_miss_takes_no_more_than_its_charge(&HEAP);
    reading_a_response_takes_memory_proportional_to_it();
    the_inputs_of_fuzzing_take_no_more_memory();
    metrics_take_little_memory();
}

fn reading_a_response_takes_memory_proportional_to_it() {
    let data = |data: &str| {
        state(&format!(
            r#""Wallet":[{{"id":1,"object":{{"type":"Wallet","chain_id":"a"}},"data":{data}}}]"#
        ))
    };
    let unreadable = FIELDS.map(|field| format!(r#""{field}":[]"#)).join(",");
    let junk = "0,".repeat(8 << 20);
    let ids: Vec<_> = (0..200_000).map(|id| format!(r#""c{id}""#)).collect();
    let cases = [
        ("64 MB of data", "/state", data(&format!("[{}0]", "0,".repeat(32 << 20)))),
        (
            "a chain of 16 MB",
            "/chain",
            success(&format!(r#"{{"id":"a",{unreadable},"junk":[{junk}0]}}"#)),
        ),
        (
            "unclosed lists",
            "/state",
            format!(r#"{{"status":"success","result":{}"#, "[".repeat(16 << 20)),
        ),
        ("nested data", "/state", data(&format!("{}{}", "[".repeat(8 << 20), "]".repeat(8 << 20)))),
        ("200,000 chains", "/chains", success(&format!("[{}]", ids.join(",")))),
        (
            "200,000 connected chains",
            "/state",
            success(&format!(r#"{{"chains":[{}],"workers":{{}}}}"#, ids.join(","))),
        ),
        ("many workers", "/state", state(&workers(400_000))),
        ("many workers in a file", "file", state(&workers(100_000))),
        ("a long name", "/state", data(&format!(r#"{{"{}":1}}"#, "x".repeat(20 << 20)))),
        (
            "a long message",
            "/chains",
            format!(
                r#"{{"status":"error","result":{{"name":"X","msg":"{}"}}}}"#,
                "A\u{202e}".repeat(5 << 20)
            ),
        ),
        (
            "a number that is a long text",
            "/state",
            state(&format!(r#""W":[{{"id":"{}"}}]"#, "\u{202e}".repeat(5 << 20))),
        ),
        (
            "many parts",
            "/version",
            format!("[{}]", vec![r#"{"name":"a","version":""}"#; 500_000].join(",")),
        ),
        ("many versions that are none", "/version", format!("[{}]", "0,".repeat(8 << 20))),
    ];
    for (name, endpoint, body) in cases {
        let peak = HEAP.peak_of(|| drop(read_response(endpoint, body.as_bytes())));
        // The response itself is not counted: with it, the bound is three times its size.
        assert!(peak <= 2 * body.len() + BASE, "{name}: {peak} bytes of {}", body.len());
        println!("{name}: {}% of {} bytes", 100 * peak / body.len(), body.len());
    }
}

/// Metrics whose texts are all different, up to the bounds.
fn metrics_take_little_memory() {
    let label = |line: usize, place: usize| format!("b{place}=\"{line}-{place}\"");
    let line = |line| {
        let labels: Vec<_> = (0..10).map(|place| label(line, place)).collect();
        format!("a{{{}}} 1\n", labels.join(","))
    };
    let many: String = (0..25_000).map(line).collect();
    let small: Vec<_> = (0..50_000).map(|line| format!("a{{b=\"{line}\"}} 1\n")).collect();
    let small = small.concat();
    for (name, text, factor) in [("many labels", many, 10), ("small samples", small, 20)] {
        let peak = HEAP.peak_of(|| drop(parse_metrics(text.as_bytes()).unwrap()));
        assert!(peak <= factor * text.len() + BASE, "{name}: {peak} bytes of {}", text.len());
        println!("{name}: {}% of {} bytes", 100 * peak / text.len(), text.len());
    }
}

fn the_inputs_of_fuzzing_take_no_more_memory() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/upstream");
    for file in fs::read_dir(corpus).unwrap() {
        fuzz::upstream_memory(&HEAP, &fs::read(file.unwrap().path()).unwrap());
    }
    let small = [
        state(&format!(r#""W":[{}]"#, vec![r#"{"id":1,"object":{"type":""}}"#; 600_000].join(","))),
        state(&format!(
            r#""W":[{}]"#,
            vec![
                format!(
                    r#"{{"id":1,"object":{{"type":"","a":1{}}}}}"#,
                    (0..60).map(|n| format!(r#","{n}":1"#)).collect::<Vec<_>>().concat()
                );
                20_000
            ]
            .join(",")
        )),
        success(&format!(
            r#"{{"id":"a","excluded_sequences":{{"c":[{}1]}}}}"#,
            "1,".repeat(30_000)
        )),
    ];
    for body in small {
        fuzz::upstream_memory(&HEAP, body.as_bytes());
    }
}
