//! The section `[commands]` of the settings.

use std::path::PathBuf;
use std::time::Duration;

use relayer_rest_common::{LimitError, limits};

limits! {
    /// The commands to the relayer that clients may give.
    pub struct CommandSettings {
        /// A relayer that responds later may still execute the command.
        time: Duration = "\"10s\"", "100ms" to "10min", "Time in which the relayer must execute a command";
    }
    with {
        /// Whether clients may clear pending packets. Default: false.
        #[serde(rename = "clear-packets")]
        clear_packets: bool, any;
        /// The file of the clients' tokens, relative to the folder of the configuration
        /// file. Default: none.
        tokens: Option<PathBuf>, any;
    }
}

/// Accepts any value.
#[allow(clippy::unnecessary_wraps, reason = "it is a check of the table")]
fn any<T>(_: &T) -> Result<(), LimitError> {
    Ok(())
}
