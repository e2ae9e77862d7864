//! Logs the causes of failed requests, which clients do not get.

use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_sandbox::{CallError, Module};
use tracing::{error, warn};

/// Logs why a module has no response, in one short line: names in the module cannot add
/// lines.
pub(super) fn fault(rate: &LogRate, module: &Module, cause: &CallError) {
    match rate.acquire(1) {
        Permit::Granted(0) => {}
        Permit::Granted(left_out) => warn!("{left_out} requests that failed were left out here"),
        Permit::LimitReached => {
            let most = rate.most();
            return warn!(
                "more than {most} requests fail each second; some are left out here, and `relayer-rest status` counts all"
            );
        }
        Permit::Denied => return,
    }
    let label = module.label().to_str().unwrap_or_default();
    let message = escape_control(&truncate(&cause.to_string()));
    if cause.is_overload() {
        warn!(module = label, "{message}");
    } else {
        error!(module = label, "{message}");
    }
}
