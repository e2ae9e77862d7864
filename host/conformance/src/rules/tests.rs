//! Tests that each rule finds its faults and no others.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use relayer_rest_sandbox::{Engine, Limits, Module};

use super::super::dialect::Dialect;
use super::super::probe::{Exchange, Probe, TestCase};
use super::super::states;
use super::{ANSWERS, Findings, RULES};

/// Returns the probes of the dialect's bundled module.
async fn probes(dialect: Dialect) -> Vec<Probe> {
    let engine = Engine::new(&Limits::default()).unwrap();
    let module = Module::from_bytes(&engine, "own", dialect.component()).unwrap();
    let mut probes = Vec::new();
    for state in states::made_up() {
        probes.push(Probe::of(&module, state).await);
    }
    probes
}

fn broken(dialect: Dialect, probes: &[Probe]) -> Vec<&'static str> {
    let mut findings = Findings::new(dialect, true);
    for probe in probes {
        findings.judge(probe);
    }
    let failed = findings.rules.iter().filter(|(_, failure)| failure.is_some());
    failed.map(|(rule, _)| rule.name).collect()
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

/// Faults, and the rules that find them: the dialect, the state, the test case, the
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
async fn each_rule_finds_its_violation_and_no_other() {
    let mut wrong = Vec::new();
    for dialect in [V, N, A] {
        let mut probes = probes(dialect).await;
        assert_eq!(broken(dialect, &probes), [""; 0]);
        for (_, state, question, change, expected) in ROWS.iter().filter(|row| row.0 == dialect) {
            let probe = probes.iter_mut().find(|probe| probe.state.name == *state).unwrap();
            let is = |asked: &Exchange| asked.question == *question;
            let place = probe.asked.iter().position(is).unwrap();
            let right = probe.asked[place].outcome.clone();
            change(probe.asked[place].outcome.as_mut().unwrap());
            let found = broken(dialect, &probes);
            if found != *expected {
                wrong.push(format!("{dialect} {state} {question:?}: {found:?}, not {expected:?}"));
            }
            let probe = probes.iter_mut().find(|probe| probe.state.name == *state).unwrap();
            probe.asked[place].outcome = right;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every rule is broken by at least one row.
    for rule in RULES.iter().filter(|rule| rule.name != ANSWERS) {
        assert!(ROWS.iter().any(|(.., expected)| expected.contains(&rule.name)), "{}", rule.name);
    }
}

#[tokio::test]
async fn missing_responses_violate_no_other_rules() {
    let mut probes = probes(V).await;
    probes[0].asked[0].outcome = Err("it trapped".into());
    assert_eq!(broken(V, &probes[..1]), [ANSWERS]);
}
