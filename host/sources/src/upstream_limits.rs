//! Limits on the responses of a running relayer: the section `[upstream]`.

use bytesize::ByteSize;
use relayer_rest_common::LimitError;
use relayer_rest_common::toml_text;
use serde::Deserialize;

/// Limits on the responses of the relayer behind `--upstream`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamLimits {
    /// The maximum body of a response, in bytes. Parsing it takes up to three times as
    /// much memory. Default: 64 MiB; 64 KiB to 1 GiB.
    #[serde(deserialize_with = "toml_text::size_field")]
    pub body: ByteSize,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self { body: ByteSize::mib(64) }
    }
}

impl UpstreamLimits {
    /// Returns the limit that is out of its range, as an error.
    pub fn check(&self) -> Result<(), LimitError> {
        if (ByteSize::kib(64)..=ByteSize::gib(1)).contains(&self.body) {
            return Ok(());
        }
        Err(LimitError { key: "body", value: self.body.to_string(), range: "64KiB to 1GiB" })
    }
}
