//! The text of a configuration with all settings and their defaults.

use std::sync::LazyLock;

use relayer_rest_common::limit::Limit;
use relayer_rest_oci::RegistrySettings;
use relayer_rest_sandbox::Limits;
use relayer_rest_sources::{TelemetrySettings, UpstreamSettings};

use super::AccessLogConfig;
use crate::capsules::CapsulesConfig;
use crate::commands::CommandSettings;
use crate::http::{HttpLimits, LiveLimits, ServerSettings};
use crate::registry::{FailurePolicy, SwapLimits};

/// The sections of limits, with their tables.
pub const LIMITS: [(&str, &[Limit]); 12] = [
    ("module.limits", Limits::LIMITS),
    ("module.failure-policy", FailurePolicy::LIMITS),
    ("swap", SwapLimits::LIMITS),
    ("server", ServerSettings::LIMITS),
    ("http", HttpLimits::LIMITS),
    ("live", LiveLimits::LIMITS),
    ("upstream", UpstreamSettings::LIMITS),
    ("telemetry", TelemetrySettings::LIMITS),
    ("commands", CommandSettings::LIMITS),
    ("access-log", AccessLogConfig::LIMITS),
    ("registries", RegistrySettings::LIMITS),
    ("capsules", CapsulesConfig::LIMITS),
];

/// A configuration with all settings: each is commented out, with its meaning, its range
/// and its default.
pub static DEFAULT: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::new();
    for part in include_str!("default.toml").split_inclusive('\n') {
        let section = part.strip_prefix("LIMITS ").map(str::trim_end);
        match LIMITS.iter().find(|(name, _)| Some(*name) == section) {
            Some((_, limits)) => {
                let rows: Vec<_> = limits.iter().map(row).collect();
                text += &rows.join("\n");
            }
            None => text += part,
        }
    }
    text
});

/// The maximum length of a line.
const WIDTH: usize = 88;

/// Returns the lines of a limit: its meaning and its range, and its default.
fn row(limit: &Limit) -> String {
    let Limit { key, default, range, meaning } = limit;
    let mut text = String::new();
    let mut line = String::from("#");
    for word in format!("{meaning}: {range}.").split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            text += &line;
            text.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line += word;
    }
    format!("{text}{line}\n# {key} = {default}\n")
}
