//! The part of a module that its instances need: its name, its mount and its log.

use std::sync::Arc;

use http::HeaderValue;
use relayer_rest_common::Digest;
use relayer_rest_common::log_rate::LogRate;

use super::limits::Limits;
use super::request_headers::RequestHeaders;

/// The name and the mount of a module, and the limits of its log.
#[derive(Clone)]
pub(super) struct ModuleInfo {
    pub(super) name: Arc<str>,
    /// The path of its mount.
    pub(super) mount: Arc<str>,
    /// The value of `x-relayer-module`.
    pub(super) label: HeaderValue,
    pub(super) limits: Limits,
    /// The request headers that it sees if it is a component of `wasi:http`.
    pub(super) request_headers: RequestHeaders,
    /// The rate of the lines of all modules of its engine.
    pub(super) log_rate: Arc<LogRate>,
}

impl ModuleInfo {
    /// Returns the same information under another name.
    ///
    /// # Panics
    /// Panics if the name has characters that a header cannot have.
    pub(super) fn named(self, name: &str, digest: Digest) -> Self {
        Self { name: name.into(), label: label(name, digest), ..self }
    }

    /// Returns whether the module serves the API.
    pub(super) fn is_api(&self) -> bool {
        &*self.mount == "/"
    }

    /// Returns the label for log lines.
    pub(super) fn label(&self) -> &str {
        self.label.to_str().unwrap_or_default()
    }
}

/// Returns the label of a module: `NAME@DIGEST`, with the first 12 digits of the digest.
///
/// # Panics
/// Panics if the name has characters that a header cannot have.
pub(super) fn label(name: &str, digest: Digest) -> HeaderValue {
    HeaderValue::try_from(format!("{name}@{}", digest.short()))
        .expect("a module's name is a valid part of a header")
}
