//! Checks that a module's responses follow a dialect of the API: before the module
//! serves, and in `relayer-rest check` for its author.
//!
//! | file | job |
//! |---|---|
//! | `dialect.rs` | the dialects |
//! | `states.rs` | the relayer states on which modules are tested |
//! | `probe.rs` | the test cases, and the module's responses |
//! | `rules.rs` | the rules of each dialect |
//! | `chain_json.rs` | a chain's configuration in the JSON of each dialect |
//! | `state_json.rs` | the workers in the JSON of each dialect |

mod chain_json;
mod dialect;
mod probe;
mod rules;
mod state_json;
mod states;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use dialect::{Dialect, DialectError};
pub use probe::Cost;
pub use probe::{answer, chain_target};
use relayer_rest_sandbox::Module;
use relayer_rest_state::Snapshot;

/// The result of examining a module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The dialect whose rules were checked.
    pub dialect: Dialect,
    /// The verdict on each rule.
    pub rules: Vec<RuleVerdict>,
    /// The cost of each request.
    pub costs: Vec<Cost>,
}

/// The verdict on one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// The rule's name.
    pub rule: String,
    /// The requirement and its source.
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
    pub fn has_faults(&self) -> bool {
        self.failures().any(|failed| failed.rule == rules::ANSWERS)
    }
}

/// Examines a module for the API against all rules of a dialect, on fictitious states and
/// on the current state, if there is one.
pub async fn examine(module: &Module, dialect: Dialect, present: Option<Arc<Snapshot>>) -> Verdict {
    examine_as(module, dialect, true, present).await
}

/// Examines an extension, which need not serve any of the API's paths.
pub async fn examine_extension(module: &Module, present: Option<Arc<Snapshot>>) -> Verdict {
    examine_as(module, Dialect::Any, false, present).await
}

/// A request of a test case and its response, for tests.
#[doc(hidden)]
#[derive(Debug)]
pub struct Recorded {
    pub request: String,
    pub outcome: Result<http::Response<bytes::Bytes>, String>,
}

/// Returns the responses of a module to all test cases on each fictitious state, for
/// tests.
#[doc(hidden)]
pub async fn record(module: &Module) -> Vec<(&'static str, Vec<Recorded>)> {
    let mut recorded = Vec::new();
    for state in states::made_up() {
        let name = state.name;
        recorded.push((name, probe::Probe::of(module, state).await.into_recorded().collect()));
    }
    recorded
}

async fn examine_as(
    module: &Module,
    dialect: Dialect,
    is_api: bool,
    present: Option<Arc<Snapshot>>,
) -> Verdict {
    let mut states = states::made_up();
    states.extend(present.map(|snapshot| states::State { name: "present", snapshot }));
    let mut rules = rules::Findings::new(dialect, is_api);
    let mut costs = Vec::new();
    for state in states {
        let probe = probe::Probe::of(module, state).await;
        rules.judge(&probe);
        costs.extend(probe.into_costs());
        // A module that fails gets no further requests, because each may take up to the
        // module's time limit.
        if rules.has_faults() {
            break;
        }
    }
    Verdict { dialect, rules: rules.into_verdicts(), costs }
}
