//! The location of a module: a file, or a module in an OCI registry.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bytes::Bytes;
use relayer_rest_oci::{
    Reference, ReferenceError, Registries, RegistryError, RegistrySettings, is_reference,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tracing::info;

/// The location of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleLocation {
    /// A file.
    File(PathBuf),
    /// A module in an OCI registry: `oci://REGISTRY/REPOSITORY@sha256:DIGEST`, or with a tag
    /// instead of the digest.
    Registry(Reference),
}

/// The registries of a mount's modules, and their signer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryAccess {
    /// The section `[registries]`.
    pub settings: RegistrySettings,
    /// The signer of the modules. With one, all modules must come from a registry.
    pub signer: Option<String>,
}

/// A module in an OCI registry.
#[derive(Debug, Clone)]
pub struct RegistryModule {
    /// Its name.
    pub reference: Reference,
    /// The registries, and the signer that it must have.
    pub access: RegistryAccess,
    /// The component, if it was pulled.
    pub(super) component: Option<Bytes>,
}

impl ModuleLocation {
    /// Returns the file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file),
            Self::Registry(_) => None,
        }
    }
}

impl RegistryAccess {
    /// Returns whether modules must have a signature, which only those of registries have.
    #[must_use]
    pub fn requires_signature(&self) -> bool {
        self.settings.require_signature || self.signer.is_some()
    }
}

impl RegistryModule {
    /// Names a module.
    #[must_use]
    pub fn new(reference: Reference, access: RegistryAccess) -> Self {
        Self { reference, access, component: None }
    }

    /// Returns whether it can probably be used without a response of the registry.
    pub(super) fn is_here(&self) -> bool {
        let registries = || Registries::new(&self.access.settings);
        self.component.is_some() || registries().is_cached(&self.reference)
    }

    /// Returns the component, of at most this number of bytes, with the signature that it
    /// must have. This blocks while it waits for the registry.
    pub(super) fn pull(&self, max: u64) -> Result<Bytes, RegistryError> {
        if let Some(component) = &self.component {
            return Ok(component.clone());
        }
        let RegistryAccess { settings, signer } = &self.access;
        let policy = settings.policy(signer.as_deref());
        let pulled = Registries::new(settings).pull(&self.reference, &policy, max)?;
        let digest = pulled.reference.digest().map(|digest| digest.to_string());
        info!(module = %self.reference, manifest = digest, signer = pulled.signer, "module pulled");
        Ok(pulled.component.into())
    }
}

impl From<PathBuf> for ModuleLocation {
    fn from(file: PathBuf) -> Self {
        Self::File(file)
    }
}

impl FromStr for ModuleLocation {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_reference(text) {
            text.parse().map(Self::Registry)
        } else {
            Ok(Self::File(text.into()))
        }
    }
}

impl Display for ModuleLocation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Registry(reference) => reference.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for ModuleLocation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for ModuleLocation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(file) => file.serialize(serializer),
            Self::Registry(reference) => reference.serialize(serializer),
        }
    }
}
