//! Tests that each rule finds its violations and no others.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use relayer_rest_sandbox::{Engine, Limits, Module};

use super::super::dialect::Dialect;
use super::super::probe::{Probe, TestCase};
use super::super::states::{self, State};
use super::{Findings, RESPONDS, RULES};

/// The bundled module's responses on a state, with and without a change.
struct Run {
    state: State,
    probe: Probe,
    reference: Probe,
}

async fn runs(dialect: Dialect) -> Vec<Run> {
    let engine = Engine::new(&Limits::default()).unwrap();
    let module = Module::from_bytes(&engine, "own", dialect.component()).unwrap();
    let mut runs = Vec::new();
    for state in states::made_up() {
        let probe = Probe::run(&module, &state).await;
        let reference = Probe::run(&module, &state).await;
        runs.push(Run { state, probe, reference });
    }
    runs
}

/// Returns the names of the broken rules, and how they are broken.
fn broken(dialect: Dialect, runs: &[Run]) -> Vec<(String, String)> {
    let mut findings = Findings::new(dialect, true);
    for Run { state, probe, reference } in runs {
        findings.judge(state, probe, (dialect != A).then_some(reference));
    }
    let rules = findings.rules.into_iter();
    rules.filter_map(|known| Some((known.rule, known.failure?))).collect()
}

type Change = fn(&mut Response<Bytes>);

fn replace(response: &mut Response<Bytes>, from: &str, to: &str) {
    let body = std::str::from_utf8(response.body()).unwrap();
    assert!(body.contains(from), "{from} is not in {body}");
    *response.body_mut() = body.replace(from, to).into();
}

fn json(response: &Response<Bytes>) -> serde_json::Value {
    serde_json::from_slice(response.body()).unwrap()
}

fn text(value: &'static str) -> HeaderValue {
    HeaderValue::from_static(value)
}

/// Violations, and the rules that find them: the dialect, the state, the test case, the
/// change to its response, and the rules that the change breaks.
const ROWS: &[(Dialect, &str, TestCase, Change, &[&str])] = &[
    (V, S, TestCase::Version, |r| *r.body_mut() = "no".into(), &["json", "version-shape"]),
    (V, S, TestCase::Chains, |r| drop(r.headers_mut().remove(CONTENT_TYPE)), &["json"]),
    (V, S, TestCase::Version, |r| replace(r, "name", "nam"), &["version-shape"]),
    (N, S, TestCase::Version, |r| replace(r, "success", "error"), &["version-envelope"]),
    (V, "every field", TestCase::Version, |r| replace(r, "9.8.7", "9.8.6"), &["version-entries"]),
    (V, S, TestCase::Version, |r| replace(r, "ibc-relayer-rest", "x"), &["version-entries"]),
    (V, S, TestCase::Chains, |r| replace(r, "ibc-1", "ibc-2"), &["chains", "query"]),
    (V, "no chains", TestCase::Chains, |r| replace(r, "[]", "[\"a\"]"), &["chains", "query"]),
    (V, S, TestCase::Chain(1), |r| *r.status_mut() = StatusCode::FOUND, &["chain-found"]),
    (V, S, TestCase::Chain(0), |r| *r.body_mut() = NULL.into(), &["chain-found"]),
    (V, S, TestCase::Chain(0), |r| replace(r, "key_name", "key"), &["chain-fields"]),
    (V, S, TestCase::Chain(0), |r| replace(r, "}}}", "},\"a\":1}}"), &["chain-fields"]),
    (V, S, TestCase::Chain(0), |r| replace(r, "\"10s\"", "10"), &["chain-values"]),
    (V, "every field", TestCase::Chain(0), |r| replace(r, "14days", "336h"), &["chain-values"]),
    (N, "every field", TestCase::Chain(0), |r| replace(r, "3-5", "3-4"), &["chain-values"]),
    (V, S, TestCase::UnknownChain, |r| *r.status_mut() = StatusCode::OK, &["chain-unknown"]),
    (V, S, TestCase::UnknownChain, |r| replace(r, "error", "success"), &["chain-unknown"]),
    (N, S, TestCase::UnknownChain, |r| replace(r, "NotFound", "Gone"), &["chain-unknown-200"]),
    (
        V,
        S,
        TestCase::Chain(0),
        |r| replace(r, r#""price":0.001,"denom":"stake""#, r#""denom":"stake","price":0.001"#),
        &["chain-values"],
    ),
    (
        V,
        S,
        TestCase::State,
        |r| {
            let (first, second) =
                (r#""dst_chain_id":"ibc-0""#, r#""dst_client_id":"07-tendermint-0""#);
            replace(r, &format!("{first},{second}"), &format!("{second},{first}"));
        },
        &["state-workers"],
    ),
    (V, S, TestCase::State, |r| replace(r, "workers", "work"), &["state"]),
    (V, S, TestCase::State, |r| replace(r, "[\"ibc-0\",", "["), &["state-chains"]),
    (V, S, TestCase::State, |r| replace(r, "\"id\":1,", "\"id\":9,"), &["state-workers"]),
    (V, S, TestCase::State, |r| replace(r, "\"Client\":[", "\"Wallet\":["), &["state-workers"]),
    (N, "every field", TestCase::State, |r| replace(r, "true", "false"), &["state-workers"]),
    (V, K, TestCase::State, |r| *r.status_mut() = StatusCode::OK, &["not-known"]),
    (V, K, TestCase::Chains, |r| *r.status_mut() = StatusCode::NOT_FOUND, &["query", "not-known"]),
    (
        N,
        K,
        TestCase::Chains,
        |r| {
            *r.status_mut() = StatusCode::OK;
            replace(r, "error", "success");
        },
        &["query", "not-known"],
    ),
    (V, S, TestCase::UnknownPath, |r| *r.body_mut() = Bytes::new(), &["json", "error-json"]),
    (N, S, TestCase::UnknownPath, |r| *r.body_mut() = "no".into(), &["error-empty"]),
    (V, S, TestCase::UnknownPath, |r| *r.status_mut() = StatusCode::GONE, &["unknown-path"]),
    (V, S, TestCase::Refused("PUT", "/chains"), |r| *r.status_mut() = TEAPOT, &["method"]),
    (V, S, POST_STATE, |r| drop(r.headers_mut().insert(ALLOW, text("GET, HEADER"))), &["method"]),
    (N, S, POST_STATE, |r| drop(r.headers_mut().insert(ALLOW, text("HEAD"))), &["method"]),
    (N, S, POST_STATE, |r| *r.body_mut() = "no".into(), &["error-empty"]),
    (V, S, TestCase::Command, |r| *r.status_mut() = StatusCode::OK, &["read-only"]),
    (V, S, TestCase::ClearPackets, |r| *r.status_mut() = StatusCode::OK, &["commands"]),
    (N, S, TestCase::ClearPackets, |r| *r.status_mut() = StatusCode::NOT_FOUND, &["commands"]),
    (V, S, TestCase::WithQuery, |r| replace(r, "ibc-0", "ibc-9"), &["query"]),
    (N, S, TestCase::WithQuery, |r| *r.status_mut() = StatusCode::ACCEPTED, &["query"]),
    (V, S, TestCase::Version, |r| replace(r, "}]", ",\"a\":1}]"), &["version-shape"]),
    (
        V,
        S,
        TestCase::Version,
        |r| replace(r, "\"}]", "\"},{\"name\":\"ibc-relayer\",\"version\":\"\"}]"),
        &["version-entries"],
    ),
    (
        V,
        S,
        TestCase::Version,
        |r| {
            let first = json(r)[0].to_string();
            replace(r, &format!("[{first},"), "[");
            replace(r, "]", &format!(",{first}]"));
        },
        &["version-entries"],
    ),
    (
        V,
        S,
        TestCase::Version,
        |r| {
            let own = json(r)[1]["version"].to_string();
            replace(
                r,
                &format!("\"ibc-relayer-rest\",\"version\":{own}"),
                "\"ibc-relayer-rest\",\"version\":\"\"",
            );
        },
        &["version-entries"],
    ),
    (
        V,
        S,
        TestCase::Chains,
        |r| replace(r, "\"status\":\"success\",", "\"a\":1,\"status\":\"success\","),
        &["chains", "query"],
    ),
    (
        N,
        "every field",
        TestCase::Chain(0),
        |r| replace(r, "\"type\":\"ethermint", "\"name\":\"ethermint"),
        &["chain-values"],
    ),
    (
        N,
        "every field",
        TestCase::Chain(2),
        |r| replace(r, "penumbra-key", "other"),
        &["chain-values"],
    ),
    (
        N,
        "every field",
        TestCase::Chain(2),
        |r| replace(r, "stub_key_name", "key_name"),
        &["chain-fields"],
    ),
    (
        N,
        S,
        TestCase::Chain(0),
        |r| {
            let mut body = json(r);
            body["result"]["a"] = 1.into();
            *r.body_mut() = body.to_string().into();
        },
        &["chain-fields"],
    ),
    (N, S, TestCase::UnknownChain, |r| replace(r, "for chain: ", "for "), &["chain-unknown-200"]),
    (V, S, TestCase::UnknownChain, |r| replace(r, "\"msg\"", "\"message\""), &["chain-unknown"]),
    (N, K, TestCase::State, |r| *r.body_mut() = "no".into(), &["json", "not-known"]),
    (V, S, TestCase::State, |r| replace(r, "\"workers\":{", "\"a\":1,\"workers\":{"), &["state"]),
    (
        N,
        S,
        TestCase::State,
        |r| replace(r, "[\"ibc-0\",\"ibc-1\"]", "[\"ibc-1\",\"ibc-0\"]"),
        &["state-order"],
    ),
    (
        N,
        "every field",
        TestCase::State,
        |r| {
            let mut body = json(r);
            let workers = body["result"]["workers"].as_object_mut().unwrap();
            let first = workers.shift_remove("Client").unwrap();
            workers.insert("Client".to_owned(), first);
            *r.body_mut() = body.to_string().into();
        },
        &["state-order"],
    ),
    (
        N,
        "many workers",
        TestCase::State,
        |r| {
            let mut body = json(r);
            body["result"]["workers"]["Packet"].as_array_mut().unwrap().reverse();
            *r.body_mut() = body.to_string().into();
        },
        &["state-order"],
    ),
    (A, S, TestCase::State, |r| *r.body_mut() = "no".into(), &["json"]),
    (A, S, TestCase::State, |r| *r.status_mut() = StatusCode::BAD_GATEWAY, &["succeeds"]),
    (
        A,
        S,
        TestCase::Chain(0),
        |r| *r.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        &["succeeds"],
    ),
    (A, K, TestCase::State, |r| *r.status_mut() = StatusCode::BAD_GATEWAY, &[]),
    // The contract of the API leaves these open.
    (V, S, TestCase::State, |r| replace(r, r#"["ibc-0","ibc-1"]"#, r#"["ibc-1","ibc-0"]"#), &[]),
    (
        V,
        "every field",
        TestCase::State,
        |r| {
            let mut body = json(r);
            let workers = body["result"]["workers"].as_object_mut().unwrap();
            let first = workers.shift_remove("Client").unwrap();
            workers.insert("Client".to_owned(), first);
            *r.body_mut() = format!("{body:#}").into();
        },
        &[],
    ),
    (
        V,
        "many workers",
        TestCase::State,
        |r| {
            let mut body = json(r);
            body["result"]["workers"]["Packet"].as_array_mut().unwrap().reverse();
            *r.body_mut() = body.to_string().into();
        },
        &[],
    ),
    (V, S, TestCase::Version, |r| replace(r, "}]", "},{\"name\":\"x\",\"version\":\"\"}]"), &[]),
    (
        V,
        S,
        TestCase::Version,
        |r| replace(r, "rest\",\"version\":\"", "rest\",\"version\":\"my own "),
        &[],
    ),
    (V, "every field", TestCase::Chain(5), |r| replace(r, "1e-6", "0.000001"), &[]),
    (V, S, TestCase::UnknownChain, |r| replace(r, "ChainConfigNotFound", "Gone"), &[]),
    (V, S, TestCase::UnknownChain, |r| *r.status_mut() = StatusCode::GONE, &[]),
    (V, K, TestCase::State, |r| *r.status_mut() = StatusCode::BAD_GATEWAY, &[]),
    (N, K, TestCase::State, |r| *r.status_mut() = StatusCode::OK, &[]),
    (V, S, TestCase::Odd("/"), |r| *r.status_mut() = StatusCode::GONE, &[]),
    // Another content type is not JSON, even if it begins like JSON.
    (
        A,
        S,
        TestCase::State,
        |r| {
            *r.body_mut() = "no".into();
            r.headers_mut().insert(CONTENT_TYPE, text("application/json-seq"));
        },
        &[],
    ),
    (
        A,
        S,
        TestCase::State,
        |r| {
            *r.body_mut() = "no".into();
            r.headers_mut().insert(CONTENT_TYPE, text("Application/JSON; charset=utf-8"));
        },
        &["json"],
    ),
];
const V: Dialect = Dialect::V0_7;
const N: Dialect = Dialect::V1_13;
const A: Dialect = Dialect::Any;
const TEAPOT: StatusCode = StatusCode::IM_A_TEAPOT;
const POST_STATE: TestCase = TestCase::Refused("POST", "/state");
const S: &str = "sample";
const K: &str = "nothing known yet";
const NULL: &str = r#"{"status":"success","result":null}"#;

#[tokio::test]
async fn each_rule_finds_what_it_is_for_and_nothing_else() {
    let mut wrong = Vec::new();
    for dialect in [V, N, A] {
        let mut runs = runs(dialect).await;
        assert_eq!(broken(dialect, &runs), []);
        for (_, state, test, change, expected) in ROWS.iter().filter(|row| row.0 == dialect) {
            let run = runs.iter().position(|run| run.state.name == *state).unwrap();
            let exchanges = &runs[run].probe.exchanges;
            let exchange = exchanges.iter().position(|known| known.test == *test).unwrap();
            let right = exchanges[exchange].outcome.clone();
            change(runs[run].probe.exchanges[exchange].outcome.as_mut().unwrap());
            let found = broken(dialect, &runs);
            let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            if names != *expected {
                wrong.push(format!("{dialect} {state} {test:?}: {found:?}, not {expected:?}"));
            }
            runs[run].probe.exchanges[exchange].outcome = right;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every rule is broken by at least one row.
    for (name, ..) in RULES.iter().filter(|(name, ..)| *name != RESPONDS) {
        assert!(ROWS.iter().any(|(.., expected)| expected.contains(name)), "{name}");
    }
}

#[tokio::test]
async fn a_failure_names_the_state_the_request_and_the_place_in_the_body() {
    let mut runs = runs(N).await;
    let run = runs.iter_mut().find(|run| run.state.name == S).unwrap();
    for exchange in &mut run.probe.exchanges {
        let Ok(response) = &mut exchange.outcome else { panic!("it responds") };
        match exchange.test {
            TestCase::Version => replace(response, "\"ibc-relayer\"", "\"relayer\""),
            TestCase::Chain(1) => {
                replace(response, "\"max_gas\":3000000", "\"max_gas\":null");
                replace(response, "\"fee_granter\":null,", "");
            }
            TestCase::State => replace(response, "07-tendermint-1", "07-tendermint-2"),
            TestCase::UnknownPath => *response.status_mut() = StatusCode::OK,
            _ => {}
        }
    }
    let expected = [
        (
            "version-entries",
            "GET /version: /result/0/name: expected \"ibc-relayer\", got \"relayer\"",
        ),
        ("chain-fields", "GET /chain/ibc-1: /result/fee_granter: expected null, got nothing"),
        ("chain-values", "GET /chain/ibc-1: /result/max_gas: expected 3000000, got null"),
        (
            "state-workers",
            "GET /state: /result/workers/Client/3/object/dst_client_id: \
             expected \"07-tendermint-1\", got \"07-tendermint-2\"",
        ),
        ("unknown-path", "GET /no/such/path: expected the status 404, got 200"),
    ];
    let mut found = broken(N, &runs);
    // The changed response to an unknown path is not JSON.
    found.retain(|(rule, _)| rule != "json");
    let expected =
        expected.map(|(rule, text)| (rule.to_owned(), format!("on the state '{S}': {text}")));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn what_gets_no_response_is_not_held_against_other_rules() {
    let mut runs = runs(V).await;
    runs[0].probe.exchanges.truncate(1);
    runs[0].probe.exchanges[0].outcome = Err("it trapped".into());
    let failure = "on the state 'sample': GET /version: it trapped".to_owned();
    assert_eq!(broken(V, &runs[..1]), [(RESPONDS.to_owned(), failure)]);
}
