//! The registries of the settings, for the commands without a server.

use std::env;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use relayer_rest_oci::RegistrySettings;
use relayer_rest_server::config::{ConfigError, Layers};

/// The settings with the section `[registries]`.
#[derive(Args)]
pub(super) struct RegistryArgs {
    /// Settings of relayer-rest with the registries and signers
    /// [default: `$RELAYER_REST_CONFIG`]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

impl RegistryArgs {
    /// Reads the settings.
    pub(super) fn settings(&self) -> Result<RegistrySettings, ConfigError> {
        let layers = Layers::with_environment(self.config.clone(), env::vars_os())?;
        Ok(layers.read()?.config.registries)
    }
}
