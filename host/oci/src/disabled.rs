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

#[cfg(test)]
mod tests {
    use super::{Registries, RegistryError, RegistrySettings, SignaturePolicy};

    #[test]
    fn a_module_of_a_registry_is_refused_with_the_remedy() {
        let registries = Registries::new(&RegistrySettings::default());
        let digest = "0a".repeat(32);
        let reference = format!("oci://127.0.0.1:5000/a/b@sha256:{digest}").parse().unwrap();
        assert!(!registries.is_cached(&reference));
        for policy in [SignaturePolicy::Optional, SignaturePolicy::AnySigner] {
            let error = registries.pull(&reference, &policy, 1).unwrap_err();
            assert!(matches!(error, RegistryError::Disabled), "{error}");
            let expected = "this program is built without the feature registries; give a file";
            assert_eq!(error.to_string(), expected);
        }
    }
}
