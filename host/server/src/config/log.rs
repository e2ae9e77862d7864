//! The section `[log]`.

use serde::{Deserialize, Serialize};

/// The log on stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The format. Default: text.
    pub format: LogFormat,
    /// The level, or directives such as `info,hyper=debug`. Default: `$RUST_LOG`, or `info`.
    pub level: Option<String>,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object in each line.
    Json,
}
