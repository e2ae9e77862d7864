//! Logs the causes of failed requests, which clients do not get.

use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_sandbox::{CallError, Module};
use tracing::{error, warn};

/// Logs why a module has no response, in one short line: names in the module cannot add
/// lines.
pub(super) fn log_failure(rate: &LogRate, module: &Module, cause: &CallError) {
    match rate.acquire(1) {
        Permit::Granted(0) => {}
        Permit::Granted(omitted) => warn!(omitted, "log lines of failed requests omitted"),
        Permit::LimitReached => {
            let limit = rate.limit();
            return warn!(limit, "log lines of failed requests limited");
        }
        Permit::Denied => return,
    }
    let label = module.label().to_str().unwrap_or_default();
    let message = escape_control(&truncate(&cause.to_string()));
    if cause.is_overload() {
        warn!(module = label, error = message, "request refused");
    } else {
        error!(module = label, error = message, "request failed");
    }
}
