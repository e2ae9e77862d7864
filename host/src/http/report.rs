//! What clients are not told, in the log.

use tracing::{error, warn};

use crate::log_rate::{Allowed, LogRate};
use crate::module::{CallError, Module};
use crate::text::{cut, one_line};

/// Says why a module did not answer, in one short line whatever names a module has
/// in it.
pub(super) fn fault(rate: &LogRate, module: &Module, cause: &CallError) {
    match rate.ask(1) {
        Allowed::Yes(0) => {}
        Allowed::Yes(left_out) => warn!("{left_out} requests that failed were left out here"),
        Allowed::FirstNot => {
            let most = rate.most();
            return warn!(
                "more than {most} requests fail each second; some are left out here, and `relayer-rest status` counts all"
            );
        }
        Allowed::No => return,
    }
    let label = module.label().to_str().unwrap_or_default();
    let message = one_line(&cut(&cause.to_string()));
    if cause.is_overload() {
        warn!(module = label, "{message}");
    } else {
        error!(module = label, "{message}");
    }
}
