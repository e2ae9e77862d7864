//! The log lines of an instance: within bounds, and each with the module's label.

use relayer_rest_common::log_rate::Permit;
use relayer_rest_common::text::{escape_control_within, quote_for_log};
use tracing::{Level, warn};

use super::info::ModuleInfo;
use super::limits::bytes;
use super::request::GuestRequest;
use super::wire;

/// The approximate size of a line without its message and the request, in bytes: the
/// time, the module, and the request's id.
const LINE: usize = 160;

/// The log budget of a request.
pub(super) struct GuestLog {
    left: usize,
    /// The size of each line without its message, in bytes.
    line: usize,
    is_over: bool,
}

impl GuestLog {
    pub(super) fn new(module: &ModuleInfo, request: &GuestRequest) -> Self {
        // Each line has the start of the whole path, escaped.
        let prefix = if module.is_api() { 0 } else { module.mount.len() };
        let path = quote_for_log(request.target.path()).chars();
        let path: usize = path.map(|character| character.escape_debug().len()).sum();
        let line = LINE + quote_for_log(request.method.as_str()).len() + prefix + path;
        Self { left: bytes(module.limits.log), line, is_over: false }
    }

    /// Writes a line, in the current span.
    pub(super) fn write(&mut self, module: &ModuleInfo, level: wire::Level, message: &str) {
        if self.is_over || !is_enabled(level) {
            return;
        }
        let label = module.label();
        // Counts the line in full: the escaped message, and the rest of the line.
        let (written, is_whole) =
            escape_control_within(message, self.left.saturating_sub(self.line));
        let cost = written.len() + self.line;
        match module.log_rate.acquire(cost as u64) {
            Permit::Granted(0) => {}
            Permit::Granted(omitted) => {
                warn!(module = label, omitted, "log lines of the module omitted");
            }
            Permit::LimitReached => {
                let rate = module.limits.log_rate;
                return warn!(
                    module = label,
                    "limits.log-rate" = %rate,
                    "log rate exceeded"
                );
            }
            Permit::Denied => return,
        }
        let has_room = self.left >= self.line;
        self.left = self.left.saturating_sub(cost);
        if has_room && (!written.is_empty() || message.is_empty()) {
            line(level, label, &written);
        }
        if !has_room || !is_whole {
            self.is_over = true;
            let max = module.limits.log;
            warn!(
                module = label,
                "limits.log" = %max,
                "log of a request truncated"
            );
        }
    }
}

fn is_enabled(level: wire::Level) -> bool {
    match level {
        wire::Level::Trace => tracing::enabled!(target: "module", Level::TRACE),
        wire::Level::Debug => tracing::enabled!(target: "module", Level::DEBUG),
        wire::Level::Info => tracing::enabled!(target: "module", Level::INFO),
        wire::Level::Warn => tracing::enabled!(target: "module", Level::WARN),
        wire::Level::Error => tracing::enabled!(target: "module", Level::ERROR),
    }
}

fn line(level: wire::Level, module: &str, message: &str) {
    match level {
        wire::Level::Trace => tracing::trace!(target: "module", module, "{message}"),
        wire::Level::Debug => tracing::debug!(target: "module", module, "{message}"),
        wire::Level::Info => tracing::info!(target: "module", module, "{message}"),
        wire::Level::Warn => tracing::warn!(target: "module", module, "{message}"),
        wire::Level::Error => tracing::error!(target: "module", module, "{message}"),
    }
}
