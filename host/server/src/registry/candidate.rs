//! A module to deploy, and the limits for its deployment.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytesize::ByteSize;
use relayer_rest_common::{files, limits, stable_file};
use relayer_rest_conformance::Dialect;
use relayer_rest_oci::RegistryError;
use relayer_rest_sandbox::{Digest, Engine, GuestRequest};

use super::location::{ModuleLocation, RegistryAccess, RegistryModule};
use super::report::Rejection;
use super::shadow::Shadow;

/// A module to deploy.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The source of the component.
    pub source: Source,
    /// The digest that it must have.
    pub sha256: Option<Digest>,
    /// The dialect that it must speak, instead of the mount's.
    pub dialect: Option<Dialect>,
    /// Whether this is a dry run.
    pub dry_run: bool,
    /// Whether it may be a quarantined module.
    pub force: bool,
    /// Whether it has been in service before, so that it is activated without probation: its
    /// failures do not activate the module before it.
    pub is_known: bool,
    /// Further requests to which its responses are compared with those of the active module,
    /// in addition to clients' requests; up to 100.
    pub requests: Vec<Arc<GuestRequest>>,
    /// The shadow before its activation, if there is one.
    pub shadow: Option<Shadow>,
}

/// The source of a component.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A file that may still be written; it is read when it no longer changes.
    ChangingFile(PathBuf),
    /// A module in an OCI registry.
    Registry(Box<RegistryModule>),
    /// A component that is bundled with the host: it is compiled in this process, and neither
    /// its size nor the time of its deployment is limited.
    Bundled(&'static [u8]),
    /// Bytes in memory.
    Bytes {
        /// The name in messages.
        name: String,
        /// The component.
        bytes: Bytes,
    },
}

limits! {
    /// The limits for a swap.
    pub struct SwapLimits {
        size: ByteSize = "\"32MiB\"", "1KiB" to "1GiB", "Size of the component";
        /// From the first step to the last.
        time: Duration = "\"1min\"", "1ms" to "1h", "Time for all steps";
        memory: ByteSize = "\"1GiB\"", "64MiB" to "64GiB", "Memory of the process that compiles the component";
    }
}

impl Candidate {
    /// Creates a candidate that must speak the mount's dialect.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self {
            source,
            sha256: None,
            dialect: None,
            dry_run: false,
            force: false,
            is_known: false,
            requests: Vec::new(),
            shadow: None,
        }
    }

    /// Returns the candidate with the component that its file has now, and its digest. If the
    /// file cannot be read, the deployment has the reason.
    pub(crate) fn read(mut self, max: ByteSize) -> (Self, Option<Digest>) {
        let read = self.source.read(max).ok();
        let digest = read.as_ref().map(|bytes| Digest::new(bytes));
        let Some(bytes) = read else { return (self, digest) };
        match &mut self.source {
            Source::File(_) | Source::ChangingFile(_) => {
                self.source = Source::Bytes { name: self.source.name(), bytes };
            }
            Source::Registry(module) => module.component = Some(bytes),
            Source::Bundled(_) | Source::Bytes { .. } => {}
        }
        (self, digest)
    }

    /// Returns whether a first deployment takes no compilation in another process.
    pub(crate) fn is_quick(&self, engine: &Engine) -> bool {
        match &self.source {
            Source::Bytes { bytes, .. } => engine.has_code(bytes),
            Source::Registry(module) => {
                module.component.as_ref().is_some_and(|bytes| engine.has_code(bytes))
            }
            // A file that could not be read has no component.
            Source::File(_) | Source::ChangingFile(_) | Source::Bundled(_) => true,
        }
    }
}

impl Source {
    /// Returns the source of the module at a location. A module of a registry must have the
    /// signature that the access asks for.
    #[must_use]
    pub fn new(location: ModuleLocation, access: &RegistryAccess) -> Self {
        match location {
            ModuleLocation::File(file) => Self::File(file),
            ModuleLocation::Registry(reference) => {
                let module = RegistryModule::new(reference, access.clone());
                Self::Registry(Box::new(module))
            }
        }
    }

    /// Returns the name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(file) | Self::ChangingFile(file) => file.display().to_string(),
            Self::Registry(module) => module.reference.to_string(),
            Self::Bundled(_) => "embedded".to_owned(),
            Self::Bytes { name, .. } => name.clone(),
        }
    }

    pub(super) fn is_bundled(&self) -> bool {
        matches!(self, Self::Bundled(_))
    }

    /// Returns whether reading it does not wait for a registry.
    pub(crate) fn is_here(&self) -> bool {
        match self {
            Self::Registry(module) => module.is_here(),
            _ => true,
        }
    }

    /// Returns whether the signature that a mount may require is checked when it is read.
    pub(super) fn is_signed(&self) -> bool {
        matches!(self, Self::Registry(_) | Self::Bundled(_))
    }

    /// Reads the component, of at most this size. This blocks while it waits for a registry.
    ///
    /// # Errors
    /// Returns the reason, and the problem with its remedy, without the name.
    pub fn read(&self, max: ByteSize) -> Result<Bytes, (Rejection, String)> {
        self.bytes(max.as_u64()).map_err(|error| {
            let of_registry = error.get_ref().and_then(|error| error.downcast_ref());
            match (error.kind(), of_registry) {
                (io::ErrorKind::FileTooLarge, _) => {
                    (Rejection::TooLarge, format!("larger than {max}; raise swap.size"))
                }
                (_, Some(error)) => (rejection(error), format!("cannot be pulled: {error}")),
                _ => (
                    Rejection::Unreadable,
                    format!("cannot be read: {error}; {}", self.remedy(&error)),
                ),
            }
        })
    }

    /// Returns the remedy for a component that cannot be read.
    fn remedy(&self, error: &io::Error) -> String {
        files::remedy(Path::new(&self.name()), error)
    }

    /// Reads the component, of at most this number of bytes.
    pub(crate) fn bytes(&self, max: u64) -> io::Result<Bytes> {
        match self {
            Self::File(file) => files::read(file, max).map(Bytes::from),
            Self::ChangingFile(file) => stable_file::read(file, max).map(Bytes::from),
            Self::Registry(module) => module.pull(max).map_err(|error| match error {
                RegistryError::TooLarge { .. } => io::ErrorKind::FileTooLarge.into(),
                error => io::Error::other(error),
            }),
            Self::Bundled(bytes) => Ok(Bytes::from_static(bytes)),
            Self::Bytes { bytes, .. } if bytes.len() as u64 > max => {
                Err(io::ErrorKind::FileTooLarge.into())
            }
            Self::Bytes { bytes, .. } => Ok(bytes.clone()),
        }
    }
}

/// Returns the reason of a rejection for a module that cannot be pulled.
fn rejection(error: &RegistryError) -> Rejection {
    match error {
        RegistryError::Mismatch { .. } => Rejection::DigestMismatch,
        RegistryError::Unsigned(_)
        | RegistryError::UnpinnedTag
        | RegistryError::UnknownSigner(_)
        | RegistryError::Key { .. } => Rejection::Unsigned,
        _ => Rejection::Unreadable,
    }
}
