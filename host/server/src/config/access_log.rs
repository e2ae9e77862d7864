//! The section `[access-log]`.

use std::path::PathBuf;

use relayer_rest_common::limit::any;
use relayer_rest_common::limits;
use serde::{Deserialize, Serialize};

limits! {
    /// The access log: a line for each request.
    pub struct AccessLogConfig {
        sample: u32 = "1", "1" to "1000000", "One of this many requests is logged, selected at random";
    }
    with {
        /// The file that lines are appended to, relative to the folder of the configuration
        /// file. Default: none, which logs no requests.
        file: Option<PathBuf>, any;
        /// The format. Default: combined.
        format: AccessLogFormat, any;
    }
}

/// The format of the access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessLogFormat {
    /// The combined log format of Apache and nginx.
    #[default]
    Combined,
    /// A JSON object in each line.
    Json,
}
