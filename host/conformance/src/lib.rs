//! Checks that a module's responses follow a dialect of the API: before the module
//! serves, and in `relayer-rest check` for its author.
//!
//! A dialect is defined by its bundled module: the probe runs the module and the bundled
//! one, the reference, on the same relayer states and test cases, and the rules compare
//! the responses. Golden files in `tests/` pin the responses of the bundled modules.
//!
//! | file | job |
//! |---|---|
//! | `dialect.rs` | the dialects |
//! | `states.rs` | the relayer states on which modules are tested |
//! | `probe.rs` | the test cases, and a module's responses |
//! | `rules.rs` | the rules of each dialect |
//! | `case.rs` | one test case, as the checks see it |
//! | `checks.rs` | the check of each rule |
//! | `json_difference.rs` | the first difference between JSON values |

mod case;
mod checks;
mod dialect;
mod json_difference;
mod probe;
mod rules;
mod states;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use dialect::{Dialect, DialectError};
use probe::Probe;
pub use probe::RequestCost;
pub use probe::{declared_targets, run_request, targets};
use relayer_rest_common::text::truncate;
use relayer_rest_sandbox::Module;
use relayer_rest_state::Snapshot;
use rules::Findings;
use states::State;

/// The result of probing a module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The dialect whose rules were checked.
    pub dialect: Dialect,
    /// The verdict on each rule.
    pub rules: Vec<RuleVerdict>,
    /// The cost of each request.
    pub costs: Vec<RequestCost>,
}

/// The verdict on one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// The rule's name.
    pub rule: String,
    /// The requirement.
    pub description: String,
    /// Whether the rule was checked: a module that fails gets no further requests.
    pub tried: bool,
    /// How the module breaks the rule, if it does.
    pub failure: Option<String>,
}

impl Verdict {
    /// Returns the rules that the module breaks.
    pub fn failures(&self) -> impl Iterator<Item = &RuleVerdict> {
        self.rules.iter().filter(|rule| rule.failure.is_some())
    }

    /// Returns whether the module keeps all rules.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Returns whether the module failed to respond to a request.
    #[must_use]
    pub fn fails_to_respond(&self) -> bool {
        self.failures().any(|failed| failed.rule == rules::RESPONDS)
    }
}

/// The rules that a module is probed against, with the bundled module of the dialect
/// as the reference.
#[derive(Debug, Clone, Copy)]
pub enum Reference<'a> {
    /// A module for the API must speak the dialect 0.7 as this one does.
    V0_7(&'a Module),
    /// A module for the API must speak the dialect 1.13 as this one does.
    V1_13(&'a Module),
    /// A module for the API may speak any dialect.
    Any,
    /// An extension need not serve any of the API's paths.
    Extension,
}

/// The reason why a module could not be compared with its reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bundled module of the dialect {dialect} failed on {request}: {reason}")]
pub struct ReferenceError {
    dialect: Dialect,
    request: String,
    reason: String,
}

impl<'a> Reference<'a> {
    /// Returns the dialect whose rules are checked.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        match self {
            Self::V0_7(_) => Dialect::V0_7,
            Self::V1_13(_) => Dialect::V1_13,
            Self::Any | Self::Extension => Dialect::Any,
        }
    }

    fn module(self) -> Option<&'a Module> {
        match self {
            Self::V0_7(module) | Self::V1_13(module) => Some(module),
            Self::Any | Self::Extension => None,
        }
    }
}

/// Probes a module, on fictitious states and on the current state, if there is one.
pub async fn probe(
    module: &Module,
    reference: Reference<'_>,
    present: Option<Arc<Snapshot>>,
) -> Result<Verdict, ReferenceError> {
    let mut states = states::made_up();
    states.extend(present.map(|snapshot| State { name: "present", snapshot }));
    let dialect = reference.dialect();
    let mut findings = Findings::new(dialect, !matches!(reference, Reference::Extension));
    let mut costs = Vec::new();
    // The reference itself is compared with the responses that it just gave.
    let other = reference.module().filter(|reference| reference.digest() != module.digest());
    for state in states {
        let probe = Probe::run(module, &state).await;
        let expected = match other {
            Some(reference) if probe.failure().is_none() => {
                let expected = Probe::run(reference, &state).await;
                if let Some((test, reason)) = expected.failure() {
                    let request = test.request(&state);
                    return Err(ReferenceError { dialect, request, reason: truncate(reason) });
                }
                Some(expected)
            }
            _ => None,
        };
        let expected = reference.module().map(|_| expected.as_ref().unwrap_or(&probe));
        findings.judge(&state, &probe, expected);
        costs.extend(probe.into_costs());
        // A module that fails gets no further requests, because each may take up to the
        // module's time limit.
        if findings.fails_to_respond() {
            break;
        }
    }
    Ok(Verdict { dialect, rules: findings.into_verdicts(), costs })
}

/// A request of a test case and its response.
#[derive(Debug)]
pub struct Recorded {
    /// The request: its method and target.
    pub request: String,
    /// The response, or the reason for its absence.
    pub outcome: Result<http::Response<bytes::Bytes>, String>,
}

/// Returns the responses of a module to all test cases on each fictitious state.
pub async fn record(module: &Module) -> Vec<(&'static str, Vec<Recorded>)> {
    let mut recorded = Vec::new();
    for state in states::made_up() {
        let name = state.name;
        recorded.push((name, Probe::run(module, &state).await.into_recorded().collect()));
    }
    recorded
}
