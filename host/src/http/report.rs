//! What clients are not told, in the log.

use tracing::{error, warn};

use crate::log_rate::{Allowed, LogRate};
use crate::module::{CallError, Module};
use crate::text::one_line;

/// Requests that fail which the log has each second, at most: a client may
/// make as many as it likes. All are counted.
const MOST: u64 = 20;

/// Writes to the log what went wrong with requests.
pub(super) struct Report(LogRate);

impl Default for Report {
    fn default() -> Self {
        Self(LogRate::new(MOST))
    }
}

impl Report {
    /// Says why a module did not answer, in one line whatever names a module
    /// has in it.
    pub(super) fn fault(&self, module: &Module, cause: &CallError) {
        match self.0.ask(1) {
            Allowed::Yes(0) => {}
            Allowed::Yes(left_out) => warn!("{left_out} requests that failed were left out here"),
            Allowed::FirstNot => {
                return warn!(
                    "more than {MOST} requests fail each second; some are left out here, and `relayer-rest status` counts all"
                );
            }
            Allowed::No => return,
        }
        let label = module.label().to_str().unwrap_or_default();
        let message = one_line(&cause.to_string());
        if matches!(cause, CallError::Overloaded) {
            warn!(module = label, "{message}");
        } else {
            error!(module = label, "{message}");
        }
    }
}
