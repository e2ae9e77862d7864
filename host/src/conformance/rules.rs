//! The rules of each dialect: one line each, with where it is from.

use bytes::Bytes;
use http::Response;
use http::header::{ALLOW, CONTENT_TYPE};
use serde_json::{Map, Value};

use super::RuleVerdict;
use super::chain_json;
use super::dialect::Dialect::{self, Any, V0_7, V1_13};
use super::probe::{Probe, Question, UNKNOWN_CHAIN};
use super::state_json;
use crate::state::{ChainConfig, ChainId};
use crate::text::cut;

/// The name of the rule that every request is answered.
pub(super) const ANSWERS: &str = "answers";

struct Rule {
    name: &'static str,
    says: &'static str,
    dialects: &'static [Dialect],
    check: fn(Dialect, &Probe) -> Result<(), String>,
}

const RULES: &[Rule] = &[
    Rule {
        name: ANSWERS,
        says: "every request is answered in time, without a trap, with what HTTP allows",
        dialects: &[V0_7, V1_13, Any],
        check: answers,
    },
    Rule {
        name: "json",
        says: "what is said to be JSON is, and so is every answer that succeeds (SPEC 4)",
        dialects: &[V0_7, V1_13, Any],
        check: json,
    },
    Rule {
        name: "version-shape",
        says: "/version is an array of name and version, without an envelope (SPEC 2.2)",
        dialects: &[V0_7],
        check: version_shape,
    },
    Rule {
        name: "version-envelope",
        says: "/version is an array of name and version in an envelope (from 1.4.1)",
        dialects: &[V1_13],
        check: version_shape,
    },
    Rule {
        name: "version-entries",
        says: "it has ibc-relayer with the relayer's version, and ibc-relayer-rest (SPEC 2.1, 4)",
        dialects: &[V0_7, V1_13],
        check: version_entries,
    },
    Rule {
        name: "chains",
        says: "/chains has the identifiers of the chains in an envelope (SPEC 2.2, 4)",
        dialects: &[V0_7, V1_13],
        check: chains,
    },
    Rule {
        name: "chain-found",
        says: "/chain/:id succeeds for each identifier of /chains, percent-encoded (SPEC 4.1)",
        dialects: &[V0_7, V1_13],
        check: chain_found,
    },
    Rule {
        name: "chain-fields",
        says: "a chain has the fields of its dialect in their order, and in 0.7 no others (SPEC 2.3)",
        dialects: &[V0_7, V1_13],
        check: chain_fields,
    },
    Rule {
        name: "chain-values",
        says: "each field has the value of the configuration, written as its dialect does (SPEC 2.3)",
        dialects: &[V0_7, V1_13],
        check: chain_values,
    },
    Rule {
        name: "chain-unknown",
        says: "an unknown chain is an error in an envelope, of a status from 400 to 499",
        dialects: &[V0_7],
        check: chain_unknown,
    },
    Rule {
        name: "chain-unknown-200",
        says: "an unknown chain is an error in an envelope, of status 200",
        dialects: &[V1_13],
        check: chain_unknown,
    },
    Rule {
        name: "state",
        says: "/state has chains and workers in an envelope (SPEC 2.4)",
        dialects: &[V0_7, V1_13],
        check: state,
    },
    Rule {
        name: "state-chains",
        says: "its chains are the connected ones (SPEC 4.2)",
        dialects: &[V0_7, V1_13],
        check: state_chains,
    },
    Rule {
        name: "state-workers",
        says: "its workers are the active ones by kind, each with what it serves in its order (SPEC 2.4, 4.2)",
        dialects: &[V0_7, V1_13],
        check: state_workers,
    },
    Rule {
        name: "not-known",
        says: "what is not known yet is an error, in 0.7 of a status from 500 on",
        dialects: &[V0_7, V1_13],
        check: not_known,
    },
    Rule {
        name: "error-json",
        says: "errors are JSON as well: helpers read every answer as such",
        dialects: &[V0_7],
        check: error_json,
    },
    Rule {
        name: "error-empty",
        says: "what HTTP refuses has no body: an unknown path, another method",
        dialects: &[V1_13],
        check: error_empty,
    },
    Rule {
        name: "unknown-path",
        says: "an unknown path is 404",
        dialects: &[V0_7, V1_13],
        check: unknown_path,
    },
    Rule {
        name: "method",
        says: "another method than GET is 405, with what is allowed",
        dialects: &[V0_7, V1_13],
        check: method,
    },
];

/// What was found out about each rule so far.
pub(super) struct Findings {
    dialect: Dialect,
    rules: Vec<(&'static Rule, Option<String>)>,
}

impl Findings {
    pub(super) fn new(dialect: Dialect) -> Self {
        let rules = RULES.iter().filter(|rule| rule.dialects.contains(&dialect));
        Self { dialect, rules: rules.map(|rule| (rule, None)).collect() }
    }

    /// Holds what was answered against each rule that was kept so far.
    pub(super) fn judge(&mut self, probe: &Probe) {
        for (rule, failure) in &mut self.rules {
            if failure.is_none()
                && let Err(message) = (rule.check)(self.dialect, probe)
            {
                *failure = Some(format!("on the state '{}': {message}", probe.state.name));
                // The rest would be about answers that are not there.
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
            says: rule.says.to_owned(),
            is_tried: !is_over || failure.is_some(),
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
            return Err(format!("{method} {target}: {}", cut(error)));
        }
    }
    Ok(())
}

fn json(dialect: Dialect, probe: &Probe) -> Checked {
    for (question, response) in probe.answers(|_| true) {
        let is_json = is_json(response);
        let target = question.target(&probe.state);
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

fn version_shape(dialect: Dialect, probe: &Probe) -> Checked {
    versions(dialect, probe).map(drop)
}

fn version_entries(dialect: Dialect, probe: &Probe) -> Checked {
    // Where the shape is another, that is said by another rule.
    let Ok(versions) = versions(dialect, probe) else { return Ok(()) };
    let version = |name: &str| versions.iter().find(|(known, _)| known == name);
    for component in probe.state.snapshot.components().value() {
        match version(&component.name) {
            Some((_, version)) if *version == component.version => {}
            Some((name, version)) => {
                let (version, expected) = (cut(version), &component.version);
                return Err(format!("/version: {name} is {version:?} in place of {expected:?}"));
            }
            None => return Err(format!("/version: there is no entry {}", component.name)),
        }
    }
    version("ibc-relayer-rest")
        .map(drop)
        .ok_or("/version: there is no entry ibc-relayer-rest".into())
}

/// Name and version of each entry.
fn versions(dialect: Dialect, probe: &Probe) -> Result<Vec<(String, String)>, String> {
    let mut versions = Vec::new();
    for (_, response) in probe.answers(|question| *question == Question::Version) {
        let fault = |message: &str| format!("/version: {message}");
        let entries = match (dialect, success(response).map_err(|message| fault(&message))?) {
            (V1_13, value) => result(value).map_err(|message| fault(&message))?,
            (_, value) => value,
        };
        let Value::Array(entries) = entries else { return Err(fault("it is not an array")) };
        for entry in entries {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            versions.push(text("name").zip(text("version")).ok_or_else(|| {
                let entry = cut(&entry.to_string());
                fault(&format!("{entry} has not a name and a version"))
            })?);
        }
    }
    Ok(versions)
}

fn chains(_: Dialect, probe: &Probe) -> Checked {
    let Ok(chains) = probe.state.chains() else { return Ok(()) };
    let mut expected: Vec<&str> = chains.iter().map(|chain| chain.id.as_str()).collect();
    for (_, response) in probe.answers(|question| *question == Question::Chains) {
        let value =
            success(response).and_then(result).map_err(|message| format!("/chains: {message}"))?;
        same_texts("/chains: the result", &value, &mut expected)?;
    }
    Ok(())
}

fn chain_found(_: Dialect, probe: &Probe) -> Checked {
    for (question, response) in probe.answers(is_chain) {
        let fault = match success(response).and_then(result) {
            Ok(Value::Object(_)) => continue,
            Ok(other) => format!("the result is {}, not an object", cut(&other.to_string())),
            Err(message) => message,
        };
        return Err(format!("{}: {fault}", question.target(&probe.state)));
    }
    Ok(())
}

fn chain_fields(dialect: Dialect, probe: &Probe) -> Checked {
    each_chain(probe, |chain, found| {
        let fields = chain_json::fields(dialect, &chain.kind);
        let is_known = |name: &str| fields.iter().any(|(field, _)| *field == name);
        if dialect == V0_7
            && let Some(name) = found.keys().find(|name| !is_known(name))
        {
            return Err(format!("there is a field {} that SPEC 2.3 does not have", cut(name)));
        }
        let mut expected = fields.iter().map(|(name, _)| *name);
        let mut next = expected.next();
        for name in found.keys() {
            if Some(name.as_str()) == next {
                next = expected.next();
            }
        }
        match next {
            None => Ok(()),
            Some(name) if found.contains_key(name) => Err(format!("{name} is not in its place")),
            Some(name) => Err(format!("there is no {name}")),
        }
    })
}

fn chain_values(dialect: Dialect, probe: &Probe) -> Checked {
    each_chain(probe, |chain, found| {
        for (name, value) in chain_json::fields(dialect, &chain.kind) {
            let expected = value(chain);
            // Where there is none, another rule says so.
            if let Some(found) = found.get(*name)
                && !is_written_as(found, &expected)
            {
                let (found, expected) = (cut(&found.to_string()), cut(&expected.to_string()));
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
        let Question::Chain(place) = question else { continue };
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
    for (_, response) in probe.answers(|question| *question == Question::UnknownChain) {
        let fault = |message: String| Err(format!("/chain/{UNKNOWN_CHAIN}: {message}"));
        let status = response.status();
        let is_right = if dialect == V1_13 { status == 200 } else { status.is_client_error() };
        if !is_right {
            return fault(format!("the status is {status}"));
        }
        let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        if body.get("status").and_then(Value::as_str) != Some("error") {
            return fault("the body does not have the status \"error\"".to_owned());
        }
        let name = body.pointer("/result/name").and_then(Value::as_str);
        if dialect == V1_13 && name != Some("ChainConfigNotFound") {
            return fault("the result's name is not \"ChainConfigNotFound\"".to_owned());
        }
    }
    Ok(())
}

fn state(_: Dialect, probe: &Probe) -> Checked {
    each_state(probe, |result| {
        let is_right = result.get("chains").is_some_and(Value::is_array)
            && result.get("workers").is_some_and(Value::is_object);
        if is_right {
            Ok(())
        } else {
            Err("it has not an array chains and an object workers".into())
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
            return Err(format!("there are no workers of the kind {}", cut(kind)));
        }
        for (kind, expected) in &expected {
            let found = found.get(kind).ok_or_else(|| format!("there is no {kind}"))?;
            same_workers(kind, found, expected)?;
        }
        Ok(())
    })
}

/// Whether a value is another, with the fields of objects in the same order:
/// that is part of a dialect.
fn is_written_as(found: &Value, expected: &Value) -> bool {
    let (found, expected) = (found.to_string(), expected.to_string());
    found == expected
}

/// The order of entries is not fixed by the API (SPEC 2.4).
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
            let (found, expected) = (cut(&found.to_string()), cut(&expected.to_string()));
            Err(format!("a worker of the kind {kind} is {found} in place of {expected}"))
        }
        None => Ok(()),
    }
}

fn each_state(probe: &Probe, mut check: impl FnMut(&Value) -> Checked) -> Checked {
    if probe.state.snapshot.status().value().is_err() {
        return Ok(());
    }
    for (_, response) in probe.answers(|question| *question == Question::State) {
        let checked = success(response).and_then(result).and_then(|value| check(&value));
        checked.map_err(|message| format!("/state: {message}"))?;
    }
    Ok(())
}

fn not_known(dialect: Dialect, probe: &Probe) -> Checked {
    let (no_chains, no_state) =
        (probe.state.chains().is_err(), probe.state.snapshot.status().value().is_err());
    let is_unknown = |question: &Question| match question {
        Question::Chains | Question::UnknownChain => no_chains,
        Question::State => no_state,
        _ => false,
    };
    for (question, response) in probe.answers(is_unknown) {
        let status = response.status();
        let is_right = match dialect {
            V0_7 => status.is_server_error(),
            V1_13 | Any => success(response).and_then(result).is_err(),
        };
        if !is_right {
            let target = question.target(&probe.state);
            return Err(format!("{target}: the status is {status}, as if it were known"));
        }
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
        |question: &Question| matches!(question, Question::UnknownPath | Question::Post);
    for (question, response) in probe.answers(is_refused) {
        if !response.body().is_empty() {
            let (method, target) = (question.method(), question.target(&probe.state));
            return Err(format!("{method} {target}: there is a body"));
        }
    }
    Ok(())
}

fn is_json(response: &Response<Bytes>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

fn unknown_path(_: Dialect, probe: &Probe) -> Checked {
    status(probe, &Question::UnknownPath, 404)
}

fn method(_: Dialect, probe: &Probe) -> Checked {
    status(probe, &Question::Post, 405)?;
    for (_, response) in probe.answers(|question| *question == Question::Post) {
        let allow = response.headers().get(ALLOW).map_or(&b""[..], |value| value.as_bytes());
        if !allow.windows(3).any(|part| part == b"GET") {
            return Err("POST /chains: the header allow does not name GET".to_owned());
        }
    }
    Ok(())
}

fn status(probe: &Probe, question: &Question, expected: u16) -> Checked {
    for (_, response) in probe.answers(|asked| asked == question) {
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

fn is_chain(question: &Question) -> bool {
    matches!(question, Question::Chain(_))
}

/// The body of an answer of status 200.
fn success(response: &Response<Bytes>) -> Result<Value, String> {
    match response.status().as_u16() {
        200 => serde_json::from_slice(response.body())
            .map_err(|error| format!("the body is not JSON: {error}")),
        status => Err(format!("the status is {status} in place of 200")),
    }
}

/// The result in an envelope.
fn result(body: Value) -> Result<Value, String> {
    let Value::Object(mut envelope) = body else {
        return Err("there is no envelope of status and result".to_owned());
    };
    let status = envelope.get("status").cloned().unwrap_or_default();
    if status != "success" {
        let status = cut(&status.to_string());
        return Err(format!("the envelope's status is {status} in place of \"success\""));
    }
    envelope.remove("result").ok_or_else(|| "the envelope has no result".to_owned())
}

/// Holds an array against texts, in whatever order.
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
    let (found, expected) = (cut(&format!("{texts:?}")), cut(&format!("{expected:?}")));
    Err(format!("{what} is {found} in place of {expected}"))
}

#[cfg(test)]
mod tests;
