//! The settings of the sources: the sections `[relayer]`, `[upstream]` and `[telemetry]`.

use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_common::limit::any;
use relayer_rest_common::limits;
use relayer_rest_common::url_secrets::without_secrets;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

/// The value of [`TelemetrySettings::url`] that disables telemetry.
const NONE: &str = "none";

/// The files of the relayer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelayerSettings {
    /// The relayer's configuration file, for its chains and the address to listen on. Default:
    /// none.
    pub config: Option<PathBuf>,
    /// Whether to serve the API even if `enabled` in `[rest]` of that file is missing or false.
    /// Default: false.
    pub enable: bool,
    /// A JSON file with the relayer's state, the result of `/state`. Default: none.
    pub state: Option<PathBuf>,
}

limits! {
    /// The relayer that is polled over its REST API.
    pub struct UpstreamSettings {
        poll: Duration = "\"1s\"", "1ms" to "24h", "Interval between polls of the relayer";
        timeout: Duration = "\"2s\"", "1ms" to "24h", "Time limit of a request to the relayer";
        max_stale: Duration = "\"5min\"", "1ms" to "24h", "Maximum age of the last known state while the relayer is unreachable";
        body: ByteSize = "\"64MiB\"", "64KiB" to "1GiB", "Body of a response; parsing it takes up to three times as much memory";
    }
    with {
        /// The base URL of the relayer's REST API. Default: none.
        #[serde(deserialize_with = "url_field", serialize_with = "public_url")]
        url: Option<Url>, any;
    }
}

limits! {
    /// The telemetry of a relayer, which is polled with the time limits of `[upstream]`.
    pub struct TelemetrySettings {
        poll: Duration = "\"5s\"", "1ms" to "24h", "Interval between reads of the telemetry";
    }
    with {
        /// The URL of the metrics. Default: of `[telemetry]` in the relayer's configuration
        /// file, if enabled there.
        url: Option<TelemetryUrl>, any;
    }
}

/// The URL of the relayer's metrics, or none although the relayer's configuration has one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum TelemetryUrl {
    /// No telemetry: `none`.
    Disabled,
    /// The URL, such as `http://127.0.0.1:3001/metrics`.
    At(Url),
}

/// A URL that cannot be the URL of a relayer's API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the URL of a relayer's REST API: {0}; expected one such as http://127.0.0.1:3000")]
pub struct UpstreamUrlError(String);

/// A URL that cannot be the URL of metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the URL of a relayer's telemetry: {0}; expected one such as http://127.0.0.1:3001/metrics"
)]
pub struct TelemetryUrlError(String);

/// Parses the URL of a relayer's API.
pub(super) fn upstream_url(text: &str) -> Result<Url, UpstreamUrlError> {
    http_url(text).map_err(UpstreamUrlError)
}

/// Parses the URL of metrics, with the path `/metrics` unless it has a path.
pub(super) fn telemetry_url(text: &str) -> Result<Url, TelemetryUrlError> {
    let mut url = http_url(text).map_err(TelemetryUrlError)?;
    if url.path() == "/" {
        url.set_path("/metrics");
    }
    Ok(url)
}

fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if url.scheme() != "http" || !url.has_host() {
        return Err(format!("unsupported scheme {}", url.scheme()));
    }
    Ok(url)
}

impl UpstreamSettings {
    /// Returns the maximum size of a response, in bytes.
    #[must_use]
    pub fn body_limit(&self) -> usize {
        usize::try_from(self.body.as_u64()).unwrap_or(usize::MAX)
    }
}

impl TryFrom<String> for TelemetryUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == NONE {
            return Ok(Self::Disabled);
        }
        telemetry_url(&text).map(Self::At).map_err(|error| format!("{error}, or none"))
    }
}

impl Serialize for TelemetryUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Disabled => serializer.serialize_str(NONE),
            Self::At(url) => serializer.serialize_str(&public(url)),
        }
    }
}

fn url_field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    upstream_url(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// Serializes a URL without passwords: a client of the admin listener may read it.
#[expect(clippy::ref_option, reason = "serde passes the field")]
fn public_url<S: Serializer>(url: &Option<Url>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(public).serialize(serializer)
}

fn public(url: &Url) -> String {
    without_secrets(url.as_str().to_owned()).unwrap_or_default()
}
