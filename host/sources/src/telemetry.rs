//! Source: the telemetry of a running relayer, polled over HTTP.
//!
//! While the relayer does not respond, its last telemetry stays published, marked as stale;
//! when it is older than [`TelemetrySource::max_stale`], it is no longer known.

use std::time::{Duration, SystemTime};

use relayer_rest_common::backoff::Backoff;
use relayer_rest_common::url_secrets::without_secrets;
use relayer_rest_state::{NotReady, SourceKind, SourceReporter, StatePublisher};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};
use url::Url;

use super::http_client::HttpClient;
use super::metrics_text::{self, MetricsError};
use super::off_thread::off_thread;
use super::polling::RequestError;
use super::settings::{TelemetryUrlError, telemetry_url};

/// The maximum delay after a failure.
const MAX_WAIT: Duration = Duration::from_secs(15);

/// The telemetry of a relayer, which is polled.
#[derive(Debug, Clone)]
pub struct TelemetrySource {
    /// The address of the metrics: `http://127.0.0.1:3001/metrics`.
    pub url: Url,
    /// The pause between two polls. Default: 5 s.
    pub poll: Duration,
    /// The time limit of a request. Default: 2 s.
    pub timeout: Duration,
    /// The maximum age of the telemetry that is published. Default: 5 min.
    pub max_stale: Duration,
    /// The maximum size of a response, in bytes. Default: 64 MiB.
    pub body_limit: usize,
}

/// The reason why a scrape has no result.
#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

impl TelemetrySource {
    /// Creates the default settings for the metrics at this URL, with the path `/metrics`
    /// unless it has a path.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or its scheme is not http.
    pub fn new(url: &str) -> Result<Self, TelemetryUrlError> {
        let url = telemetry_url(url)?;
        Ok(Self {
            url,
            poll: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            max_stale: Duration::from_mins(5),
            body_limit: 64 << 20,
        })
    }

    /// Publishes the telemetry until the future is dropped.
    pub async fn run(self, publisher: StatePublisher) {
        let location = without_secrets(self.url.as_str().to_owned()).unwrap_or_default();
        let source = publisher.add_source(SourceKind::Telemetry, location);
        publisher
            .set_telemetry_not_ready(not_ready("the relayer's telemetry has not been read yet"));
        match HttpClient::new(self.body_limit, 1) {
            Ok(client) => {
                let settings = self;
                let (last, failure) = (None, None);
                Poller { settings, client, publisher, source, last, failure }.run().await;
            }
            Err(error) => {
                warn!(%error, "cannot read the telemetry: no HTTP client can be created");
            }
        }
    }
}

struct Poller {
    settings: TelemetrySource,
    client: HttpClient,
    publisher: StatePublisher,
    source: SourceReporter,
    /// The time of the last scrape, until its telemetry expires.
    last: Option<Instant>,
    /// The message of the last failure, until the relayer responds.
    failure: Option<String>,
}

impl Poller {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.settings.poll, MAX_WAIT);
        loop {
            let wait = match self.scrape().await {
                Ok(()) => {
                    self.succeeded();
                    backoff.reset();
                    self.settings.poll
                }
                Err(error) => {
                    self.failed(&error.to_string());
                    backoff.next_delay()
                }
            };
            sleep(wait).await;
        }
    }

    async fn scrape(&self) -> Result<(), ScrapeError> {
        let TelemetrySource { url, timeout: limit, .. } = &self.settings;
        let response = timeout(*limit, self.client.get(url.clone())).await.unwrap_or_else(|_| {
            let limit = humantime::format_duration(*limit);
            Err(RequestError::Unreachable(format!("no response within {limit}")))
        });
        let (status, body) = response?;
        if !status.is_success() {
            return Err(RequestError::Status(status.as_u16()).into());
        }
        let now = SystemTime::now();
        let families = off_thread(move || metrics_text::parse(&body)).await?;
        self.publisher.set_telemetry(families, now);
        Ok(())
    }

    fn succeeded(&mut self) {
        self.last = Some(Instant::now());
        self.source.responded();
        if self.failure.take().is_some() {
            info!("telemetry of the relayer readable");
        }
    }

    fn failed(&mut self, message: &str) {
        self.source.failed(message);
        if self.failure.as_deref() == Some(message) {
            debug!(error = message, "telemetry not readable; retrying");
        } else {
            warn!(error = message, "telemetry not readable; retrying");
            self.failure = Some(message.to_owned());
        }
        let max_stale = self.settings.max_stale;
        match self.last {
            Some(last) if last.elapsed() > max_stale => {
                let for_long = humantime::format_duration(max_stale);
                let reason =
                    format!("the relayer's telemetry has not been readable for {for_long}");
                self.publisher.set_telemetry_not_ready(not_ready(&reason));
                self.last = None;
            }
            Some(last) => self.publisher.set_telemetry_stale(Some(last.into_std())),
            None => {}
        }
    }
}

fn not_ready(message: &str) -> NotReady {
    NotReady { message: message.to_owned(), ..NotReady::default() }
}

#[cfg(test)]
mod tests {
    use super::TelemetrySource;

    #[test]
    fn urls_have_the_path_of_metrics() {
        for (url, expected) in [
            ("http://127.0.0.1:3001", "http://127.0.0.1:3001/metrics"),
            ("http://relayer:80/base/metrics", "http://relayer/base/metrics"),
        ] {
            assert_eq!(TelemetrySource::new(url).unwrap().url.as_str(), expected);
        }
        for url in ["", "127.0.0.1:3001", "https://h", "file:///x"] {
            let message = TelemetrySource::new(url).unwrap_err().to_string();
            assert!(message.contains("expected one such as http://127.0.0.1:3001"), "{message}");
        }
    }
}
