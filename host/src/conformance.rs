//! Whether a module answers as a dialect of the API says: what is asked of a
//! module before it serves, and what `relayer-rest check` shows to its author.
//!
//! | file | job |
//! |---|---|
//! | `dialect.rs` | the dialects |
//! | `states.rs` | the relayers on which a module is asked |
//! | `probe.rs` | the questions, and what comes back |
//! | `rules.rs` | the rules of each dialect |
//! | `chain_json.rs` | a chain's configuration as each dialect writes it |
//! | `state_json.rs` | the workers as each dialect writes them |

mod chain_json;
mod dialect;
mod probe;
mod rules;
mod state_json;
mod states;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::module::Module;
use crate::state::Snapshot;
pub use dialect::{Dialect, DialectError};
pub use probe::Cost;
pub(crate) use probe::{answer, chain_target};

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The dialect.
    pub dialect: Dialect,
    /// Each of its rules.
    pub rules: Vec<RuleVerdict>,
    /// What each request took.
    pub costs: Vec<Cost>,
}

/// Whether a module keeps a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// The rule's name.
    pub rule: String,
    /// What it says, and where that is from.
    pub says: String,
    /// Whether it was tried: a module that fails is not asked more.
    pub is_tried: bool,
    /// How the module breaks it, where it does.
    pub failure: Option<String>,
}

impl Verdict {
    /// The rules that the module does not keep.
    pub fn failures(&self) -> impl Iterator<Item = &RuleVerdict> {
        self.rules.iter().filter(|rule| rule.failure.is_some())
    }

    /// Whether it keeps all of them.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Whether there was a request that the module gave no answer to.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.failures().any(|failed| failed.rule == rules::ANSWERS)
    }
}

/// Asks a module that is to serve the API all that a dialect speaks of, on
/// made-up relayers and on the present one, where there is one.
pub async fn examine(module: &Module, dialect: Dialect, present: Option<Arc<Snapshot>>) -> Verdict {
    examine_as(module, dialect, true, present).await
}

/// The same of an extension: of the API's paths it need answer none.
pub async fn examine_extension(module: &Module, present: Option<Arc<Snapshot>>) -> Verdict {
    examine_as(module, Dialect::Any, false, present).await
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
        // A module that fails is not asked more: each question may take as long
        // as a module may.
        if rules.has_faults() {
            break;
        }
    }
    Verdict { dialect, rules: rules.into_verdicts(), costs }
}
