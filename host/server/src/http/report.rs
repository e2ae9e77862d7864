//! Logs the causes of failed requests, which clients do not get.

use bytes::Bytes;
use hyper::Response;
use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_common::text::{escape_control, truncate};
use relayer_rest_sandbox::{CallError, Module};
use tracing::{error, warn};

use super::error::HostError;
use crate::registry::{Mount, RespondError, RespondErrorKind};
use crate::response::X_RELAYER_MODULE;

/// Returns the host's response in place of a module's, and logs why it is needed.
pub(super) fn failure(mount: &Mount, error: &RespondError) -> Response<Bytes> {
    let RespondError { active, cause } = error;
    if let RespondErrorKind::Failed(cause) = cause {
        log_failure(mount.reports(), active.module(), cause);
    }
    let mut response = HostError::from(cause).response();
    response.headers_mut().insert(X_RELAYER_MODULE, active.module().label().clone());
    response
}

/// Logs why a module has no response, in one short line: names in the module cannot add
/// lines.
fn log_failure(rate: &LogRate, module: &Module, cause: &CallError) {
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
