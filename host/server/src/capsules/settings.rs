//! The section `[capsules]` of the settings.

use std::path::PathBuf;

use bytesize::ByteSize;
use http::HeaderName;
use relayer_rest_common::limit::any;
use relayer_rest_common::limits;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

limits! {
    /// The capsules of failed requests.
    pub struct CapsulesConfig {
        count: u32 = "100", "1" to "100000", "Capsules in the folder; the oldest are removed for new ones";
        size: ByteSize = "\"64MiB\"", "64KiB" to "64GiB", "Size of all capsules in the folder, and of all their modules";
    }
    with {
        /// The folder, relative to the folder of the configuration file. Default: none, which
        /// keeps no capsules.
        folder: Option<PathBuf>, any;
        /// Headers of requests whose values are masked, besides those with credentials.
        /// Default: none.
        redact: RedactedHeaders, any;
    }
}

/// The names of headers whose values are masked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedactedHeaders(pub Vec<HeaderName>);

impl<'de> Deserialize<'de> for RedactedHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = |name: String| {
            name.parse().map_err(|_| {
                serde::de::Error::custom(format!(
                    "{name:?} is not a header name; expected one such as \"x-session\""
                ))
            })
        };
        let names = Vec::<String>::deserialize(deserializer)?;
        names.into_iter().map(name).collect::<Result<_, _>>().map(Self)
    }
}

impl Serialize for RedactedHeaders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(HeaderName::as_str))
    }
}
