//! A module to deploy, and the limits for its deployment.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use bytesize::ByteSize;
use relayer_rest_common::LimitError;
use relayer_rest_common::toml_text;
use relayer_rest_conformance::Dialect;
use relayer_rest_sandbox::Digest;
use serde::Deserialize;

use super::failure_policy::check_time;

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

/// The limits for a swap.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwapLimits {
    /// The maximum size of the component, in bytes. Default: 32 MiB; 1 KiB to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub size: ByteSize,
    /// The maximum time from the first step to the last. Default: 1 min; 1 ms to 1 h.
    #[serde(deserialize_with = "toml_text::duration_field")]
    pub time: Duration,
    /// The maximum memory of the process that compiles the component, in bytes, if there
    /// is one. Default: 1 GiB; 64 MiB to 64 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub memory: ByteSize,
}

impl Default for SwapLimits {
    fn default() -> Self {
        Self { size: ByteSize::mib(32), time: Duration::from_mins(1), memory: ByteSize::gib(1) }
    }
}

impl SwapLimits {
    /// Returns an error if a limit is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        if !(ByteSize::kib(1)..=ByteSize::gib(1)).contains(&self.size) {
            return Err(LimitError {
                key: "size",
                value: self.size.to_string(),
                range: "1KiB to 1GiB",
            });
        }
        if !(ByteSize::mib(64)..=ByteSize::gib(64)).contains(&self.memory) {
            return Err(LimitError {
                key: "memory",
                value: self.memory.to_string(),
                range: "64MiB to 64GiB",
            });
        }
        check_time("time", self.time)
    }
}

impl Candidate {
    /// Creates a candidate that must speak the mount's dialect.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, sha256: None, dialect: None, dry_run: false, force: false }
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
