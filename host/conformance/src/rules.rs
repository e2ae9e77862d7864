//! The rules of each dialect, each with its source.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{Response, StatusCode};
use relayer_rest_common::bounded_json;
use relayer_rest_common::text::truncate;
use relayer_rest_state::{ChainConfig, ChainId};
use serde_json::{Map, Value};

use super::RuleVerdict;
use super::chain_json;
use super::dialect::Dialect::{self, Any, V0_7, V1_13};
use super::probe::{Probe, TestCase, UNKNOWN_CHAIN};
use super::state_json;

/// The maximum size of the values of a body that is parsed, in bytes: the state of more
/// than 50,000 workers.
const MAX_VALUES: u64 = 256 << 20;

/// The name of the rule that every request gets a response.
pub(super) const ANSWERS: &str = "answers";

/// The name of the rule against server errors at the API's endpoints.
const SUCCEEDS: &str = "succeeds";

struct Rule {
    name: &'static str,
    description: &'static str,
    dialects: &'static [Dialect],
    check: fn(Dialect, &Probe) -> Result<(), String>,
}

const RULES: &[Rule] = &[
    Rule {
        name: ANSWERS,
        description: "every request is answered in time, without a trap, with what HTTP allows",
        dialects: &[V0_7, V1_13, Any],
        check: answers,
    },
    Rule {
        name: "json",
        description: "what is said to be JSON is, and so is every answer that succeeds (SPEC 4)",
        dialects: &[V0_7, V1_13, Any],
        check: json,
    },
    Rule {
        name: SUCCEEDS,
        description: "what the host knows is answered, with a status below 500",
        dialects: &[Any],
        check: succeeds,
    },
    Rule {
        name: "version-shape",
        description: "/version is an array of name and version and no more, without an envelope (SPEC 2.2)",
        dialects: &[V0_7],
        check: version_shape,
    },
    Rule {
        name: "version-envelope",
        description: "/version is an array of name and version and no more, in an envelope (from 1.4.1)",
        dialects: &[V1_13],
        check: version_shape,
    },
    Rule {
        name: "version-entries",
        description: "it has ibc-relayer first, with the relayer's version, and ibc-relayer-rest; each once (SPEC 2.1, 4)",
        dialects: &[V0_7, V1_13],
        check: version_entries,
    },
    Rule {
        name: "chains",
        description: "/chains has the identifiers of the chains in an envelope (SPEC 2.2, 4)",
        dialects: &[V0_7, V1_13],
        check: chains,
    },
    Rule {
        name: "query",
        description: "a query changes nothing: there are no query parameters (SPEC 4)",
        dialects: &[V0_7, V1_13],
        check: query,
    },
    Rule {
        name: "chain-found",
        description: "/chain/:id succeeds for each identifier of /chains, percent-encoded (SPEC 4.1)",
        dialects: &[V0_7, V1_13],
        check: chain_found,
    },
    Rule {
        name: "chain-fields",
        description: "a chain has the fields of its dialect in their order, and no others (SPEC 2.3)",
        dialects: &[V0_7, V1_13],
        check: chain_fields,
    },
    Rule {
        name: "chain-values",
        description: "each field has the value of the configuration, written as its dialect does (SPEC 2.3)",
        dialects: &[V0_7, V1_13],
        check: chain_values,
    },
    Rule {
        name: "chain-unknown",
        description: "an unknown chain is an error with a name and a msg in an envelope, of a status from 400 to 499",
        dialects: &[V0_7],
        check: chain_unknown,
    },
    Rule {
        name: "chain-unknown-200",
        description: "an unknown chain is the error ChainConfigNotFound with its msg in an envelope, of status 200",
        dialects: &[V1_13],
        check: chain_unknown,
    },
    Rule {
        name: "state",
        description: "/state has chains, then workers, and no more, in an envelope (SPEC 2.4)",
        dialects: &[V0_7, V1_13],
        check: state,
    },
    Rule {
        name: "state-chains",
        description: "its chains are the connected ones (SPEC 4.2)",
        dialects: &[V0_7, V1_13],
        check: state_chains,
    },
    Rule {
        name: "state-workers",
        description: "its workers are the active ones by kind, each with what it serves in its order (SPEC 2.4, 4.2)",
        dialects: &[V0_7, V1_13],
        check: state_workers,
    },
    Rule {
        name: "state-order",
        description: "chains, kinds and workers are in the order in which the relayer has them",
        dialects: &[V1_13],
        check: state_order,
    },
    Rule {
        name: "not-known",
        description: "what is not known yet is an error with a name and a msg in an envelope, in 0.7 of a status from 500 on",
        dialects: &[V0_7, V1_13],
        check: not_known,
    },
    Rule {
        name: "error-json",
        description: "errors are JSON as well: helpers read every answer as such",
        dialects: &[V0_7],
        check: error_json,
    },
    Rule {
        name: "error-empty",
        description: "what HTTP refuses has no body: an unknown path, another method",
        dialects: &[V1_13],
        check: error_empty,
    },
    Rule {
        name: "unknown-path",
        description: "an unknown path is 404",
        dialects: &[V0_7, V1_13],
        check: unknown_path,
    },
    Rule {
        name: "method",
        description: "another method than GET and HEAD is 405, which says that these two are allowed (SPEC 4)",
        dialects: &[V0_7, V1_13],
        check: method,
    },
    Rule {
        name: "read-only",
        description: "commands that other relayers take do not succeed: the API reads (SPEC 1)",
        dialects: &[V0_7, V1_13],
        check: read_only,
    },
];

/// The findings on each rule so far.
pub(super) struct Findings {
    dialect: Dialect,
    rules: Vec<(&'static Rule, Option<String>)>,
}

impl Findings {
    /// Creates empty findings for a module that serves the API, or for an extension,
    /// which has its own paths.
    pub(super) fn new(dialect: Dialect, is_api: bool) -> Self {
        let rules = RULES
            .iter()
            .filter(|rule| rule.dialects.contains(&dialect) && (is_api || rule.name != SUCCEEDS));
        Self { dialect, rules: rules.map(|rule| (rule, None)).collect() }
    }

    /// Checks the responses against each rule that has not failed yet.
    pub(super) fn judge(&mut self, probe: &Probe) {
        for (rule, failure) in &mut self.rules {
            if failure.is_none()
                && let Err(message) = (rule.check)(self.dialect, probe)
            {
                *failure = Some(format!("on the state '{}': {message}", probe.state.name));
                // The remaining rules would check missing responses.
                if rule.name == ANSWERS {
                    return;
                }
            }
        }
    }

    pub(super) fn has_faults(&self) -> bool {
        self.rules.iter().any(|(rule, failure)| rule.name == ANSWERS && failure.is_some())
    }

    pub(super) fn into_verdicts(self) -> Vec<RuleVerdict> {
        let is_over = self.has_faults();
        let verdict = |(rule, failure): (&Rule, Option<String>)| RuleVerdict {
            rule: rule.name.to_owned(),
            description: rule.description.to_owned(),
            tried: !is_over || failure.is_some(),
            failure,
        };
        self.rules.into_iter().map(verdict).collect()
    }
}

type Checked = Result<(), String>;

fn answers(_: Dialect, probe: &Probe) -> Checked {
    for asked in &probe.asked {
        if let Err(error) = &asked.outcome {
            let (method, target) = (asked.question.method(), asked.question.target(&probe.state));
            return Err(format!("{method} {target}: {}", truncate(error)));
        }
    }
    Ok(())
}

fn json(dialect: Dialect, probe: &Probe) -> Checked {
    for (question, response) in probe.answers(|_| true) {
        let is_json = is_json(response);
        let target = question.target(&probe.state);
        if response.status() == StatusCode::NO_CONTENT {
            continue;
        }
        if !is_json && dialect != Any && response.status().is_success() {
            return Err(format!("{target}: the content-type is not application/json"));
        }
        if is_json
            && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(response.body())
        {
            return Err(format!("{target}: the body is not JSON: {error}"));
        }
    }
    Ok(())
}

fn succeeds(_: Dialect, probe: &Probe) -> Checked {
    let (has_chains, has_state) =
        (probe.state.chains().is_ok(), probe.state.snapshot.status().value().is_ok());
    let is_known = |question: &TestCase| match question {
        TestCase::Version => true,
        TestCase::Chains | TestCase::Chain(_) => has_chains,
        TestCase::State => has_state,
        _ => false,
    };
    for (question, response) in probe.answers(is_known) {
        let status = response.status();
        if status.is_server_error() {
            return Err(format!("{}: the status is {status}", question.target(&probe.state)));
        }
    }
    Ok(())
}

fn version_shape(dialect: Dialect, probe: &Probe) -> Checked {
    versions(dialect, probe).map(drop)
}

fn version_entries(dialect: Dialect, probe: &Probe) -> Checked {
    // Another rule reports a wrong shape.
    let Ok(versions) = versions(dialect, probe) else { return Ok(()) };
    let mut names = HashSet::new();
    if let Some((name, _)) = versions.iter().find(|(name, _)| !names.insert(name)) {
        return Err(format!("/version: {} is there twice", truncate(name)));
    }
    let version = |name: &str| versions.iter().find(|(known, _)| known == name);
    for component in probe.state.snapshot.components().value() {
        match version(&component.name) {
            Some((_, version)) if *version == component.version => {}
            Some((name, version)) => {
                let (version, expected) = (truncate(version), &component.version);
                return Err(format!("/version: {name} is {version:?} in place of {expected:?}"));
            }
            None => return Err(format!("/version: there is no entry {}", component.name)),
        }
    }
    if versions.first().is_some_and(|(name, _)| name != "ibc-relayer") {
        return Err("/version: ibc-relayer is not the first entry".to_owned());
    }
    match version("ibc-relayer-rest") {
        None => Err("/version: there is no entry ibc-relayer-rest".to_owned()),
        Some((_, version)) if version.is_empty() => {
            Err("/version: ibc-relayer-rest has an empty version".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// Returns the name and the version of each entry.
fn versions(dialect: Dialect, probe: &Probe) -> Result<Vec<(String, String)>, String> {
    let mut versions = Vec::new();
    for (_, response) in probe.answers(|question| *question == TestCase::Version) {
        let fault = |message: &str| format!("/version: {message}");
        let entries = match (dialect, success(response).map_err(|message| fault(&message))?) {
            (V1_13, value) => result(value).map_err(|message| fault(&message))?,
            (_, value) => value,
        };
        let Value::Array(entries) = entries else { return Err(fault("it is not an array")) };
        for entry in entries {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            let texts = text("name").zip(text("version"));
            versions.push(texts.filter(|_| has_keys(&entry, &["name", "version"])).ok_or_else(
                || fault(&format!("{} is not a name and a version", truncate(&entry.to_string()))),
            )?);
        }
    }
    Ok(versions)
}

fn chains(_: Dialect, probe: &Probe) -> Checked {
    let Ok(chains) = probe.state.chains() else { return Ok(()) };
    let mut expected: Vec<&str> = chains.iter().map(|chain| chain.id.as_str()).collect();
    for (_, response) in probe.answers(|question| *question == TestCase::Chains) {
        let value =
            success(response).and_then(result).map_err(|message| format!("/chains: {message}"))?;
        same_texts("/chains: the result", &value, &mut expected)?;
    }
    Ok(())
}

fn query(_: Dialect, probe: &Probe) -> Checked {
    let of = |wanted: TestCase| probe.answers(move |question| *question == wanted).next();
    match (of(TestCase::Chains), of(TestCase::WithQuery)) {
        (Some((_, plain)), Some((question, response)))
            if plain.status() != response.status() || plain.body() != response.body() =>
        {
            Err(format!("{}: the answer is not that of /chains", question.target(&probe.state)))
        }
        _ => Ok(()),
    }
}

fn chain_found(_: Dialect, probe: &Probe) -> Checked {
    for (question, response) in probe.answers(is_chain) {
        let fault = match success(response).and_then(result) {
            Ok(Value::Object(_)) => continue,
            Ok(other) => format!("the result is {}, not an object", truncate(&other.to_string())),
            Err(message) => message,
        };
        return Err(format!("{}: {fault}", question.target(&probe.state)));
    }
    Ok(())
}

fn chain_fields(dialect: Dialect, probe: &Probe) -> Checked {
    each_chain(probe, |chain, found| {
        let fields = chain_json::fields(dialect, chain);
        if let Some(name) = found.keys().find(|name| !fields.iter().any(|(known, _)| known == name))
        {
            return Err(format!(
                "there is a field {} that the dialect does not have",
                truncate(name)
            ));
        }
        if let Some((name, _)) = fields.iter().find(|(name, _)| !found.contains_key(*name)) {
            return Err(format!("there is no {name}"));
        }
        match found.keys().zip(&fields).find(|(found, (name, _))| found != name) {
            Some((found, (name, _))) => Err(format!("{found} is in the place of {name}")),
            None => Ok(()),
        }
    })
}

fn chain_values(dialect: Dialect, probe: &Probe) -> Checked {
    each_chain(probe, |chain, found| {
        for (name, expected) in chain_json::fields(dialect, chain) {
            // Another rule reports a missing field.
            if let Some(found) = found.get(name)
                && !is_written_as(found, &expected)
            {
                let (found, expected) =
                    (truncate(&found.to_string()), truncate(&expected.to_string()));
                return Err(format!("{name} is {found} in place of {expected}"));
            }
        }
        Ok(())
    })
}

fn each_chain(
    probe: &Probe,
    check: impl Fn(&ChainConfig, &Map<String, Value>) -> Checked,
) -> Checked {
    let Ok(chains) = probe.state.chains() else { return Ok(()) };
    for (question, response) in probe.answers(is_chain) {
        let TestCase::Chain(place) = question else { continue };
        let Ok(Value::Object(found)) = success(response).and_then(result) else { continue };
        check(chains[*place], &found)
            .map_err(|message| format!("{}: {message}", question.target(&probe.state)))?;
    }
    Ok(())
}

fn chain_unknown(dialect: Dialect, probe: &Probe) -> Checked {
    if probe.state.chains().is_err() {
        return Ok(());
    }
    for (_, response) in probe.answers(|question| *question == TestCase::UnknownChain) {
        let fault = |message: String| Err(format!("/chain/{UNKNOWN_CHAIN}: {message}"));
        let status = response.status();
        let is_right = if dialect == V1_13 { status == 200 } else { status.is_client_error() };
        if !is_right {
            return fault(format!("the status is {status}"));
        }
        let (name, msg) = match error(response) {
            Ok(error) => error,
            Err(message) => return fault(message),
        };
        if dialect == V1_13 && name != "ChainConfigNotFound" {
            return fault(format!("the result's name is {}", truncate(&name)));
        }
        let expected = format!("could not find configuration for chain: {UNKNOWN_CHAIN}");
        if dialect == V1_13 && msg != expected {
            return fault(format!(
                "the result's msg is {:?} in place of {expected:?}",
                truncate(&msg)
            ));
        }
    }
    Ok(())
}

fn state(_: Dialect, probe: &Probe) -> Checked {
    each_state(probe, |result| {
        let is_right = has_keys(result, &["chains", "workers"])
            && result["chains"].is_array()
            && result["workers"].is_object();
        if is_right {
            Ok(())
        } else {
            Err("it is not an array chains and an object workers, in this order".into())
        }
    })
}

fn state_chains(_: Dialect, probe: &Probe) -> Checked {
    let Ok(state) = probe.state.snapshot.status().value() else { return Ok(()) };
    let mut expected: Vec<&str> = state.chains.iter().map(ChainId::as_str).collect();
    each_state(probe, |result| {
        let chains = result.get("chains").unwrap_or(&Value::Null);
        same_texts("chains", chains, &mut expected)
    })
}

fn state_workers(dialect: Dialect, probe: &Probe) -> Checked {
    let Ok(state) = probe.state.snapshot.status().value() else { return Ok(()) };
    let expected = state_json::workers(dialect, state);
    each_state(probe, |result| {
        let Some(Value::Object(found)) = result.get("workers") else { return Ok(()) };
        if let Some(kind) = found.keys().find(|kind| !expected.contains_key(*kind)) {
            return Err(format!("there are no workers of the kind {}", truncate(kind)));
        }
        for (kind, expected) in &expected {
            let found = found.get(kind).ok_or_else(|| format!("there is no {kind}"))?;
            same_workers(kind, found, expected)?;
        }
        Ok(())
    })
}

fn state_order(dialect: Dialect, probe: &Probe) -> Checked {
    let Ok(state) = probe.state.snapshot.status().value() else { return Ok(()) };
    let expected = state_json::workers(dialect, state);
    let chains: Vec<&str> = state.chains.iter().map(ChainId::as_str).collect();
    each_state(probe, |result| {
        let found = result["chains"].as_array().into_iter().flatten();
        if found.filter_map(Value::as_str).ne(chains.iter().copied()) {
            return Err("chains is not sorted".to_owned());
        }
        let Value::Object(found) = &result["workers"] else { return Ok(()) };
        if found.keys().ne(expected.keys()) {
            let (found, expected): (Vec<_>, Vec<_>) =
                (found.keys().collect(), expected.keys().collect());
            let found = truncate(&format!("{found:?}"));
            return Err(format!("the kinds of workers are {found} in place of {expected:?}"));
        }
        let ids = |workers: &Value| -> Vec<Option<u64>> {
            let workers = workers.as_array().into_iter().flatten();
            workers.map(|worker| worker["id"].as_u64()).collect()
        };
        match found.iter().find(|(kind, workers)| ids(workers) != ids(&expected[*kind])) {
            Some((kind, _)) => Err(format!("the workers of the kind {kind} are in another order")),
            None => Ok(()),
        }
    })
}

/// Returns whether two values are equal, including the order of fields, which is part of
/// a dialect.
fn is_written_as(found: &Value, expected: &Value) -> bool {
    let (found, expected) = (found.to_string(), expected.to_string());
    found == expected
}

/// Compares the workers of a kind in any order: the API does not fix it (SPEC 2.4).
fn same_workers(kind: &str, found: &Value, expected: &Value) -> Checked {
    let by_id = |value: &Value| {
        let mut workers = value.as_array().cloned().unwrap_or_default();
        workers.sort_by_key(|worker| worker.get("id").and_then(Value::as_u64));
        workers
    };
    let (found, expected) = (by_id(found), by_id(expected));
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(format!("there are {found} workers of the kind {kind} in place of {expected}"));
    }
    match found.iter().zip(&expected).find(|(found, expected)| !is_written_as(found, expected)) {
        Some((found, expected)) => {
            let (found, expected) = (truncate(&found.to_string()), truncate(&expected.to_string()));
            Err(format!("a worker of the kind {kind} is {found} in place of {expected}"))
        }
        None => Ok(()),
    }
}

fn each_state(probe: &Probe, mut check: impl FnMut(&Value) -> Checked) -> Checked {
    if probe.state.snapshot.status().value().is_err() {
        return Ok(());
    }
    for (_, response) in probe.answers(|question| *question == TestCase::State) {
        let checked = success(response).and_then(result).and_then(|value| check(&value));
        checked.map_err(|message| format!("/state: {message}"))?;
    }
    Ok(())
}

fn not_known(dialect: Dialect, probe: &Probe) -> Checked {
    let (no_chains, no_state) =
        (probe.state.chains().is_err(), probe.state.snapshot.status().value().is_err());
    let is_unknown = |question: &TestCase| match question {
        TestCase::Chains | TestCase::UnknownChain => no_chains,
        TestCase::State => no_state,
        _ => false,
    };
    for (question, response) in probe.answers(is_unknown) {
        let status = response.status();
        let is_right = match dialect {
            V0_7 => status.is_server_error(),
            V1_13 | Any => success(response).and_then(result).is_err(),
        };
        let target = question.target(&probe.state);
        if !is_right {
            return Err(format!("{target}: the status is {status}, as if it were known"));
        }
        error(response).map_err(|message| format!("{target}: {message}"))?;
    }
    Ok(())
}

fn error_json(_: Dialect, probe: &Probe) -> Checked {
    for (question, response) in probe.answers(|_| true) {
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        let body = serde_json::from_slice::<serde::de::IgnoredAny>(response.body());
        if is_error && (body.is_err() || !is_json(response)) {
            let (method, target) = (question.method(), question.target(&probe.state));
            return Err(format!("{method} {target}: the answer of status {status} is not JSON"));
        }
    }
    Ok(())
}

fn error_empty(_: Dialect, probe: &Probe) -> Checked {
    let is_refused =
        |question: &TestCase| matches!(question, TestCase::UnknownPath | TestCase::Refused(..));
    for (question, response) in probe.answers(is_refused) {
        if !response.body().is_empty() {
            let (method, target) = (question.method(), question.target(&probe.state));
            return Err(format!("{method} {target}: there is a body"));
        }
    }
    Ok(())
}

/// Returns whether the content type is JSON.
fn is_json(response: &Response<Bytes>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn unknown_path(_: Dialect, probe: &Probe) -> Checked {
    status(probe, |question| *question == TestCase::UnknownPath, 404)
}

fn method(_: Dialect, probe: &Probe) -> Checked {
    let is_refused = |question: &TestCase| matches!(question, TestCase::Refused(..));
    status(probe, is_refused, 405)?;
    for (question, response) in probe.answers(is_refused) {
        let allow =
            response.headers().get_all(ALLOW).iter().filter_map(|allow| allow.to_str().ok());
        let allowed: HashSet<_> = allow.flat_map(|allow| allow.split(',')).map(str::trim).collect();
        if !allowed.contains("GET") || !allowed.contains("HEAD") {
            let (method, target) = (question.method(), question.target(&probe.state));
            return Err(format!("{method} {target}: the header allow does not name GET and HEAD"));
        }
    }
    Ok(())
}

fn read_only(_: Dialect, probe: &Probe) -> Checked {
    for (question, response) in probe.answers(|question| *question == TestCase::Command) {
        let status = response.status();
        if status.is_success() {
            let (method, target) = (question.method(), question.target(&probe.state));
            return Err(format!("{method} {target}: the status is {status}"));
        }
    }
    Ok(())
}

fn status(probe: &Probe, is: impl Fn(&TestCase) -> bool, expected: u16) -> Checked {
    for (question, response) in probe.answers(is) {
        let status = response.status().as_u16();
        if status != expected {
            let (method, target) = (question.method(), question.target(&probe.state));
            return Err(format!(
                "{method} {target}: the status is {status} in place of {expected}"
            ));
        }
    }
    Ok(())
}

fn is_chain(question: &TestCase) -> bool {
    matches!(question, TestCase::Chain(_))
}

/// Parses the body of a response.
fn parse(response: &Response<Bytes>) -> Result<Value, String> {
    bounded_json::parse(response.body(), MAX_VALUES).map_err(|error| error.to_string())
}

/// Parses the body of a response of status 200.
fn success(response: &Response<Bytes>) -> Result<Value, String> {
    match response.status().as_u16() {
        200 => parse(response),
        status => Err(format!("the status is {status} in place of 200")),
    }
}

/// Returns the result in a success envelope.
fn result(body: Value) -> Result<Value, String> {
    let mut envelope = envelope(body)?;
    if envelope["status"] != "success" {
        let status = truncate(&envelope["status"].to_string());
        return Err(format!("the envelope's status is {status} in place of \"success\""));
    }
    Ok(envelope["result"].take())
}

/// Returns the name and the message in an error envelope.
fn error(response: &Response<Bytes>) -> Result<(String, String), String> {
    let envelope = envelope(parse(response)?)?;
    if envelope["status"] != "error" {
        let status = truncate(&envelope["status"].to_string());
        return Err(format!("the envelope's status is {status} in place of \"error\""));
    }
    let result = &envelope["result"];
    let text = |key: &str| result[key].as_str().map(str::to_owned);
    let error = text("name").zip(text("msg")).filter(|_| has_keys(result, &["name", "msg"]));
    error.ok_or_else(|| "the result is not the texts name and msg, in this order".to_owned())
}

fn envelope(body: Value) -> Result<Value, String> {
    if has_keys(&body, &["status", "result"]) {
        return Ok(body);
    }
    Err("there is no envelope of status and result, in this order and with no more".to_owned())
}

/// Returns whether a value is an object with exactly these fields, in this order.
fn has_keys(value: &Value, keys: &[&str]) -> bool {
    value.as_object().is_some_and(|object| object.keys().eq(keys))
}

/// Compares an array with texts, in any order.
fn same_texts(what: &str, found: &Value, expected: &mut [&str]) -> Checked {
    let texts = found
        .as_array()
        .and_then(|values| values.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    let Some(mut texts) = texts else { return Err(format!("{what} is not an array of texts")) };
    texts.sort_unstable();
    expected.sort_unstable();
    if texts == expected {
        return Ok(());
    }
    let (found, expected) = (truncate(&format!("{texts:?}")), truncate(&format!("{expected:?}")));
    Err(format!("{what} is {found} in place of {expected}"))
}

#[cfg(test)]
mod tests;
