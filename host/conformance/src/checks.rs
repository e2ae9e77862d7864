//! The checks of the rules: which apply to a response, and whether it keeps them.

use std::collections::HashSet;

use http::StatusCode;
use http::header::ALLOW;
use relayer_rest_state::Command;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::case::{Case, has_fields};
use super::dialect::Dialect;
use super::json_difference::{
    JsonDifference, same, same_elements, same_fields, same_kind, same_names,
};
use super::probe::TestCase;

pub(super) type Checked = Result<(), String>;

/// The entry of `/version` with the version of the module itself.
const OWN: &str = "ibc-relayer-rest";

/// Reports whether a response keeps each rule about its test case. Names of rules that
/// the dialect does not have must be ignored.
pub(super) fn check(case: &Case<'_>, mut report: impl FnMut(&'static str, Checked)) {
    report("json", json(case));
    report("commands", commands(case));
    if case.dialect == Dialect::Any {
        return report("succeeds", succeeds(case));
    }
    report("error-json", error_json(case));
    match case.test {
        TestCase::Version => match versions(case) {
            Ok(found) => report("version-entries", version_entries(case, found)),
            Err(error) => {
                report("version-shape", Err(error.clone()));
                report("version-envelope", Err(error));
            }
        },
        _ if !case.has_data() => report("not-known", not_known(case)),
        TestCase::Chains => {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            report("chains", case.same_result(|e, f| same_elements(e, f, text)));
        }
        TestCase::WithQuery => report("query", query(case)),
        TestCase::Chain(_) => match case.same_result(same_kind) {
            Ok(()) => {
                report("chain-fields", case.same_result(same_fields));
                report("chain-values", case.same_result(same_values));
            }
            missing => report("chain-found", missing),
        },
        TestCase::UnknownChain => {
            report("chain-unknown", chain_unknown(case));
            report("chain-unknown-200", chain_unknown_200(case));
        }
        TestCase::State => {
            report("state", case.same_result(state));
            report("state-chains", case.same_result(state_chains));
            report("state-workers", case.same_result(state_workers));
            report("state-order", case.same_result(|e, f| same(&order(e), &order(f))));
        }
        TestCase::UnknownPath => {
            report("unknown-path", case.has_expected_status());
            report("error-empty", empty(case));
        }
        TestCase::Refused(..) => {
            report("method", method(case));
            report("error-empty", empty(case));
        }
        TestCase::Command => report("read-only", read_only(case)),
        TestCase::ClearPackets => report("commands", case.has_expected_status()),
        TestCase::Declared(_) | TestCase::Odd(_) => {}
    }
}

fn commands(case: &Case<'_>) -> Checked {
    let found = case.probe.commands(case.test);
    let is_expected = match (case.dialect, case.test) {
        (Dialect::Any, TestCase::ClearPackets) => true,
        (Dialect::Any, _) => found.is_empty(),
        _ => found == case.commands,
    };
    if is_expected {
        return Ok(());
    }
    let list = |commands: &[Command]| {
        let commands: Vec<_> = commands.iter().map(ToString::to_string).collect();
        if commands.is_empty() { "none".to_owned() } else { commands.join(", ") }
    };
    let expected = if case.dialect == Dialect::Any { &[] } else { case.commands };
    Err(format!("expected the commands: {}; got: {}", list(expected), list(found)))
}

fn json(case: &Case<'_>) -> Checked {
    let status = case.response.status();
    if status == StatusCode::NO_CONTENT {
        return Ok(());
    }
    if case.is_json() {
        let body = serde_json::from_slice::<IgnoredAny>(case.response.body());
        return body.map(drop).map_err(|error| format!("the body is not JSON: {error}"));
    }
    if status.is_success() && case.dialect != Dialect::Any {
        return Err("the content-type is not application/json".to_owned());
    }
    Ok(())
}

fn succeeds(case: &Case<'_>) -> Checked {
    let is_data = match case.test {
        TestCase::Version | TestCase::Chains | TestCase::Chain(_) | TestCase::State => true,
        TestCase::UnknownChain
        | TestCase::UnknownPath
        | TestCase::WithQuery
        | TestCase::Refused(..)
        | TestCase::Command
        | TestCase::ClearPackets
        | TestCase::Declared(_)
        | TestCase::Odd(_) => false,
    };
    let status = case.response.status();
    if is_data && case.has_data() && status.is_server_error() {
        return Err(format!("the status is {status}"));
    }
    Ok(())
}

/// Returns the entries of `/version`.
fn versions<'a>(case: &'a Case<'_>) -> Result<&'a [Value], String> {
    let entries = match case.dialect {
        Dialect::V1_13 => case.result()?,
        _ => case.success()?,
    };
    let texts = ["name", "version"];
    let is_entry = |entry: &Value| {
        has_fields(entry, &texts) && texts.iter().all(|field| entry[field].is_string())
    };
    let list = entries.as_array().filter(|entries| entries.iter().all(is_entry));
    let expected = || "expected an array of objects with the texts name and version";
    Ok(list.ok_or_else(expected)?)
}

/// Compares the entries of `/version`. There may be more than expected.
fn version_entries(case: &Case<'_>, found: &[Value]) -> Checked {
    let expected = case.expected().get("result").unwrap_or(case.expected());
    let mut names = HashSet::new();
    if let Some(twice) = found.iter().find(|entry| !names.insert(entry["name"].as_str())) {
        return Err(format!("{} is there twice", JsonDifference::show(&twice["name"])));
    }
    for (index, expected) in expected.as_array().into_iter().flatten().enumerate() {
        // The relayer comes first, and the others in any order.
        let is_same = |entry: &Value| index > 0 && entry["name"] == expected["name"];
        let place = found.iter().position(is_same).unwrap_or(index);
        let same = match found.get(place) {
            // The module's own version may be any.
            Some(found) if found["version"] != "" && expected["name"] == OWN => {
                same(&expected["name"], &found["name"])
            }
            Some(found) => same(expected, found),
            None => Err(JsonDifference::new(Some(expected), None)),
        };
        same.map_err(|difference| match case.dialect {
            Dialect::V1_13 => difference.under(place).under("result").to_string(),
            _ => difference.under(place).to_string(),
        })?;
    }
    Ok(())
}

fn query(case: &Case<'_>) -> Checked {
    let is_same = case.probe.response(&TestCase::Chains).is_none_or(|plain| {
        plain.status() == case.response.status() && plain.body() == case.response.body()
    });
    if is_same { Ok(()) } else { Err("the response is not that of /chains".to_owned()) }
}

/// Compares the fields that both values have.
fn same_values(expected: &Value, found: &Value) -> Result<(), JsonDifference> {
    let fields = expected.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name, value, found.get(name)?))).try_for_each(
        |(name, expected, found)| same(expected, found).map_err(|error| error.under(name)),
    )
}

fn chain_unknown(case: &Case<'_>) -> Checked {
    let status = case.response.status();
    if status.is_client_error() {
        return case.is_error();
    }
    Err(format!("expected a status from 400 to 499, got {}", status.as_u16()))
}

fn chain_unknown_200(case: &Case<'_>) -> Checked {
    case.has_expected_status()?;
    case.is_error()?;
    same(case.expected(), case.body()?).map_err(|difference| difference.to_string())
}

fn state(expected: &Value, found: &Value) -> Result<(), JsonDifference> {
    same_fields(expected, found)?;
    ["chains", "workers"].into_iter().try_for_each(|name| {
        same_kind(&expected[name], &found[name]).map_err(|difference| difference.under(name))
    })
}

fn state_chains(expected: &Value, found: &Value) -> Result<(), JsonDifference> {
    same_elements(&expected["chains"], &found["chains"], |id| id.as_str().map(str::to_owned))
        .map_err(|difference| difference.under("chains"))
}

fn state_workers(expected: &Value, found: &Value) -> Result<(), JsonDifference> {
    // Another rule reports workers that are not an object.
    if !found["workers"].is_object() {
        return Ok(());
    }
    let in_workers = |difference: JsonDifference| difference.under("workers");
    same_names(&expected["workers"], &found["workers"]).map_err(in_workers)?;
    expected["workers"].as_object().into_iter().flatten().try_for_each(|(kind, expected)| {
        same_elements(expected, &found["workers"][kind], id)
            .map_err(|difference| in_workers(difference.under(kind)))
    })
}

/// Returns the parts of a state that have an order: its chains, and the kinds and
/// identifiers of its workers.
fn order(state: &Value) -> Value {
    let chains = state["chains"].as_array().into_iter().flatten();
    let chains: Vec<_> = chains.filter_map(Value::as_str).collect();
    let workers = state["workers"].as_object().into_iter().flatten();
    let workers = workers.map(|(kind, workers)| {
        let workers = workers.as_array().into_iter().flatten();
        (kind.clone(), workers.map(|worker| json!({"id": id(worker)})).collect::<Value>())
    });
    json!({"chains": chains, "workers": workers.collect::<Map<_, _>>()})
}

fn id(worker: &Value) -> Option<u64> {
    worker["id"].as_u64()
}

fn not_known(case: &Case<'_>) -> Checked {
    let is_right = match case.dialect {
        Dialect::V0_7 => case.response.status().is_server_error(),
        _ => case.result().is_err(),
    };
    if is_right {
        return case.is_error();
    }
    Err(format!("the status is {}, as if the data were known", case.response.status().as_u16()))
}

fn error_json(case: &Case<'_>) -> Checked {
    let status = case.response.status();
    let is_json = || serde_json::from_slice::<IgnoredAny>(case.response.body()).is_ok();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || (case.is_json() && is_json()) {
        return Ok(());
    }
    Err(format!("the response of status {} is not JSON", status.as_u16()))
}

fn empty(case: &Case<'_>) -> Checked {
    if case.response.body().is_empty() { Ok(()) } else { Err("there is a body".to_owned()) }
}

fn method(case: &Case<'_>) -> Checked {
    case.has_expected_status()?;
    let allow = case.response.headers().get_all(ALLOW).iter();
    let allow = allow.filter_map(|allow| allow.to_str().ok());
    let allowed: HashSet<_> = allow.flat_map(|allow| allow.split(',')).map(str::trim).collect();
    if allowed.contains("GET") && allowed.contains("HEAD") {
        return Ok(());
    }
    Err("the header allow does not name GET and HEAD".to_owned())
}

fn read_only(case: &Case<'_>) -> Checked {
    let status = case.response.status();
    if status.is_success() { Err(format!("the status is {}", status.as_u16())) } else { Ok(()) }
}
