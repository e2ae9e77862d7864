//! A module to deploy, and the limits for its deployment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytesize::ByteSize;
use relayer_rest_common::limits;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::{Digest, GuestRequest};

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
    /// Further requests to which its responses are compared with those of the active module,
    /// in addition to clients' requests; up to 100.
    pub requests: Vec<Arc<GuestRequest>>,
}

/// The source of a component.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file.
    File(PathBuf),
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
        let requests = Vec::new();
        Self { source, sha256: None, dialect: None, dry_run: false, force: false, requests }
    }
}

impl Source {
    /// Returns the name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Bytes { name, .. } => name.clone(),
        }
    }
}
