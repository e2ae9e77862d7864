//! The rules of each dialect, each with its source.

use std::cell::OnceCell;

use relayer_rest_common::text::truncate;

use super::RuleVerdict;
use super::case::Case;
use super::checks::{self, Checked};
use super::dialect::Dialect;
use super::probe::{Probe, TestCase};
use super::states::State;

/// The name of the rule that every request gets a response.
pub(super) const RESPONDS: &str = "responds";

/// The name of the rule against server errors at the API's endpoints.
const SUCCEEDS: &str = "succeeds";

const V0_7: &[Dialect] = &[Dialect::V0_7];
const V1_13: &[Dialect] = &[Dialect::V1_13];
const API: &[Dialect] = &[Dialect::V0_7, Dialect::V1_13];
const ANY: &[Dialect] = &[Dialect::Any];
const ALL: &[Dialect] = &[Dialect::V0_7, Dialect::V1_13, Dialect::Any];

/// The rules: their names, the dialects that have them, and their descriptions.
const RULES: &[(&str, &[Dialect], &str)] = &[
    (RESPONDS, ALL, "every request gets a valid HTTP response in time, without a trap"),
    ("json", ALL, "bodies declared as JSON are JSON; successful responses of the API are, too"),
    (SUCCEEDS, ANY, "data that the host has is returned, with a status below 500"),
    ("version-shape", V0_7, "/version is an array of name and version, without an envelope"),
    (
        "version-envelope",
        V1_13,
        "/version is an array of name and version, in an envelope (from 1.4.1)",
    ),
    ("version-entries", API, "ibc-relayer is first, with its version; ibc-relayer-rest follows"),
    ("chains", API, "/chains has the identifiers of the chains in an envelope"),
    ("query", API, "a query changes nothing: there are no query parameters"),
    ("chain-found", API, "/chain/:id succeeds for each identifier of /chains"),
    ("chain-fields", API, "a chain has the fields of its dialect in their order, and no others"),
    ("chain-values", API, "each field has its value, in the form of its dialect"),
    (
        "chain-unknown",
        V0_7,
        "an unknown chain is an error with a name and a msg, of status 400 to 499",
    ),
    (
        "chain-unknown-200",
        V1_13,
        "an unknown chain is the error ChainConfigNotFound, of status 200",
    ),
    ("state", API, "/state has chains, then workers, in an envelope"),
    ("state-chains", API, "its chains are the connected ones"),
    ("state-workers", API, "its workers are the active ones by kind, with all fields"),
    ("state-order", V1_13, "chains, kinds and workers are in the order of the relayer"),
    (
        "not-known",
        API,
        "data not known yet is an error with a name and a msg; in 0.7 a status from 500",
    ),
    ("error-json", V0_7, "errors are JSON, too: clients parse every response as JSON"),
    ("error-empty", V1_13, "responses to an unknown path or another method have no body"),
    ("unknown-path", API, "an unknown path is 404"),
    ("method", API, "other methods than GET and HEAD are 405, with both in allow"),
    ("read-only", API, "a command that names no chain does not succeed"),
    ("commands", ALL, "only POST /clear_packets?chain=ID gives commands; in 1.13, the one for it"),
];

/// The findings on each rule so far.
pub(super) struct Findings {
    dialect: Dialect,
    rules: Vec<RuleVerdict>,
}

impl Findings {
    /// Creates empty findings for a module that serves the API, or for an extension,
    /// which has its own paths.
    pub(super) fn new(dialect: Dialect, is_api: bool) -> Self {
        let rules = RULES.iter().filter(|(name, dialects, _)| {
            dialects.contains(&dialect) && (is_api || *name != SUCCEEDS)
        });
        let verdict = |(name, _, description): &(&str, _, &str)| RuleVerdict {
            rule: (*name).to_owned(),
            description: (*description).to_owned(),
            tried: true,
            failure: None,
        };
        Self { dialect, rules: rules.map(verdict).collect() }
    }

    /// Checks the responses on a state against each rule that has not failed yet.
    /// `reference` has the responses of the bundled module of the dialect to the same
    /// test cases, if the dialect has one.
    pub(super) fn judge(&mut self, state: &State, probe: &Probe, reference: Option<&Probe>) {
        if let Some((test, error)) = probe.failure() {
            // The other rules would check missing responses.
            return self.report(RESPONDS, state, test, Err(truncate(error)));
        }
        for (test, response) in probe.responses() {
            let expected = reference.and_then(|reference| reference.response(test));
            let commands = reference.unwrap_or(probe).commands(test);
            let case = Case {
                dialect: self.dialect,
                state,
                test,
                probe,
                response,
                commands,
                body: OnceCell::new(),
                reference: expected.unwrap_or(response),
                expected: OnceCell::new(),
            };
            checks::check(&case, |rule, checked| self.report(rule, state, test, checked));
        }
    }

    /// Records the first failure of a rule, if the dialect has the rule.
    fn report(&mut self, rule: &str, state: &State, test: &TestCase, checked: Checked) {
        debug_assert!(RULES.iter().any(|(name, ..)| *name == rule), "no rule {rule}");
        let known = self.rules.iter_mut().find(|known| known.rule == rule);
        if let (Some(known), Err(error)) = (known, checked) {
            known.failure.get_or_insert_with(|| {
                format!("on the state '{}': {}: {error}", state.name, test.request(state))
            });
        }
    }

    pub(super) fn fails_to_respond(&self) -> bool {
        self.rules.iter().any(|rule| rule.rule == RESPONDS && rule.failure.is_some())
    }

    pub(super) fn into_verdicts(mut self) -> Vec<RuleVerdict> {
        let is_over = self.fails_to_respond();
        for rule in &mut self.rules {
            rule.tried = !is_over || rule.failure.is_some();
        }
        self.rules
    }
}

#[cfg(test)]
mod tests;
