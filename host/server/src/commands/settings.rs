//! The section `[commands]` of the settings.

use std::path::PathBuf;
use std::time::Duration;

use relayer_rest_common::limit::any;
use relayer_rest_common::limits;

use crate::tokens::{Tokens, TokensError};

limits! {
    /// The commands to the relayer that clients may give.
    pub struct CommandSettings {
        /// A relayer that responds later may still execute the command.
        time: Duration = "\"10s\"", "100ms" to "10min", "Time in which the relayer must execute a command";
    }
    with {
        /// Whether clients may clear pending packets. Default: false.
        clear_packets: bool, any;
        /// The file of the clients' tokens, relative to the folder of the configuration
        /// file. Default: none.
        token_file: Option<PathBuf>, any;
    }
}

impl CommandSettings {
    /// Reads the tokens of the clients that may give commands; none if commands are disabled.
    ///
    /// # Errors
    /// Returns an error if the file of tokens cannot be used.
    pub fn read_tokens(&self) -> Result<Tokens, TokensError> {
        match &self.token_file {
            Some(file) if self.clear_packets => Tokens::read(file),
            _ => Ok(Tokens::default()),
        }
    }
}
