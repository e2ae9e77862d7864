//! Sources of a relayer's state. Each fills a
//! [`StatePublisher`](relayer_rest_state::StatePublisher).
//!
//! | file | job |
//! |---|---|
//! | `upstream.rs` | source: a running relayer, polled over its own REST API |
//! | `polling.rs` | polls a relayer's API, over HTTP or within its process |
//! | `telemetry.rs` | source: the telemetry of a running relayer |
//! | `metrics_text.rs` | parses metrics in the text format of Prometheus |
//! | `http_client.rs` | requests to a relayer over HTTP |
//! | `off_thread.rs` | reading and publishing, off the runtime's threads |
//! | `settings.rs` | the settings of the sources |
//! | `state_file.rs` | source: a file with a relayer's state |
//! | `hermes_config.rs` | source: the relayer's configuration file |
//! | `sample.rs` | source: a sample relayer for experiments |
//! | `reloadable.rs` | a file that is read again when it changes |
//! | `watch.rs` | watches files for changes |
//! | `hermes_schema.rs` | a chain in the relayer's own format, in files and responses |
//! | `relayer_json.rs` | parses the relayer's own responses |

pub mod hermes_config;
mod hermes_schema;
#[cfg(feature = "upstream")]
mod http_client;
#[cfg(feature = "upstream")]
mod metrics_text;
mod off_thread;
mod polling;
mod relayer_json;
mod reloadable;
mod sample;
mod settings;
mod state_file;
#[cfg(feature = "upstream")]
mod telemetry;
#[cfg(feature = "upstream")]
mod upstream;
mod watch;

#[doc(hidden)]
#[cfg(feature = "upstream")]
pub use metrics_text::{MetricsError, parse as parse_metrics};
pub use polling::{Endpoint, Polling, RelayerApi, RequestError};
#[doc(hidden)]
pub use relayer_json::read_response;
pub use relayer_json::{ResponseError, UnreadField};
pub use reloadable::Reloadable;
pub use sample::sample;
pub use settings::{
    RelayerSettings, TelemetrySettings, TelemetryUrl, TelemetryUrlError, UpstreamSettings,
    UpstreamUrlError,
};
pub use state_file::{MAX_STATE_FILE, StateFileError, parse as parse_state_file, read_state_file};
#[cfg(feature = "upstream")]
pub use telemetry::TelemetrySource;
#[cfg(feature = "upstream")]
pub use upstream::Upstream;
pub use watch::{Watch, WatchError, watch};
