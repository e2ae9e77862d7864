//! Without the client: no module can be pulled.

use super::error::RegistryError;
use super::reference::Reference;
use super::settings::{Pulled, RegistrySettings, SignaturePolicy};

/// The registries of the settings, none of which can be reached.
#[derive(Debug, Clone)]
pub struct Registries(());

impl Registries {
    /// Creates them.
    #[must_use]
    pub fn new(_: &RegistrySettings) -> Self {
        Self(())
    }

    /// Returns whether a module can be used without the registry, which none can.
    #[must_use]
    pub fn is_cached(&self, _: &Reference) -> bool {
        false
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always returns [`RegistryError::Disabled`].
    pub fn pull(
        &self,
        _: &Reference,
        _: &SignaturePolicy,
        _: u64,
    ) -> Result<Pulled, RegistryError> {
        Err(RegistryError::Disabled)
    }
}
