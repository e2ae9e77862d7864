//! A connection to NATS, which is made again whenever it is lost.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::header::NATS_SEQUENCE;
use async_nats::jetstream::stream::{Config, Republish};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, Message, ServerAddr};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use relayer_rest_common::backoff::Backoff;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::address::FleetAddress;
use crate::settings::{FleetSettings, StreamReplicas};
use crate::subjects::Subjects;

/// The time limit of a request to NATS.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(2);

/// The time between two pings, so that a connection that is lost without a notice is detected.
const PING_INTERVAL: Duration = Duration::from_secs(5);

const MIN_RECONNECT: Duration = Duration::from_millis(100);
const MAX_RECONNECT: Duration = Duration::from_secs(4);

/// The maximum number of messages that are stored at once.
const MAX_IN_FLIGHT: usize = 1 << 15;

/// A connection that cannot be made with these settings.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The credentials cannot be read.
    #[error("fleet.credentials: {}: {source}; expected a file as `nsc generate creds` writes it", file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// The problem.
        source: io::Error,
    },
    /// A certificate or key cannot be read.
    #[error("fleet.{key}: {}: {source}; check the path and its permissions", file.display())]
    File {
        /// The key of the settings.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// The problem.
        source: io::Error,
    },
    /// A certificate has no key, or a key no certificate.
    #[error("fleet.certificate and fleet.key: one of them is missing; give both or none")]
    Certificate,
    /// The settings are rejected.
    #[error("fleet {address}: {problem}")]
    Connection {
        /// The fleet.
        address: FleetAddress,
        /// The problem.
        problem: String,
    },
}

/// A change of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Connected,
    /// It is lost, or the server reports an error.
    Failed(String),
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) subjects: Subjects,
    pub(crate) changes: UnboundedReceiver<Change>,
}

impl Connection {
    /// Begins to connect. The servers need not be reachable yet.
    pub(crate) async fn open(
        address: &FleetAddress,
        settings: &FleetSettings,
    ) -> Result<Self, FleetError> {
        let (sender, changes) = unbounded_channel();
        let servers: Result<Vec<_>, _> =
            address.servers().iter().cloned().map(ServerAddr::from_url).collect();
        let failed = |problem: String| FleetError::Connection { address: address.clone(), problem };
        let servers = servers.map_err(|error| failed(error.to_string()))?;
        let name = settings.name.clone().unwrap_or_else(machine_name);
        let mut options = ConnectOptions::new()
            .name(format!("relayer-rest {name}"))
            .retry_on_initial_connect()
            .ping_interval(PING_INTERVAL)
            .request_timeout(Some(REQUEST_TIME))
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(move |event| {
                let change = match event {
                    Event::Connected => Some(Change::Connected),
                    Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) => None,
                    Event::Disconnected | Event::Closed => {
                        Some(Change::Failed("the connection to NATS is lost".to_owned()))
                    }
                    Event::ServerError(error) => Some(Change::Failed(format!("NATS: {error}"))),
                    Event::ClientError(error) => Some(Change::Failed(format!("NATS: {error}"))),
                };
                if let Some(change) = change {
                    sender.send(change).ok();
                }
                std::future::ready(())
            });
        let user = address.servers().iter().find(|server| !server.username().is_empty());
        if let Some(server) = user {
            let name = decoded(server.username());
            options = match server.password() {
                Some(password) => options.user_and_password(name, decoded(password)),
                None => options.token(name),
            };
        }
        if let Some(file) = &settings.credentials {
            let read = options.credentials_file(file).await;
            let file = file.clone();
            options = read.map_err(|source| FleetError::Credentials { file, source })?;
        }
        if let Some(file) = &settings.ca {
            readable("ca", file)?;
            options = options.add_root_certificates(file.clone());
        }
        match (&settings.certificate, &settings.key) {
            (Some(certificate), Some(key)) => {
                readable("certificate", certificate)?;
                readable("key", key)?;
                options = options.add_client_certificate(certificate.clone(), key.clone());
            }
            (None, None) => {}
            _ => return Err(FleetError::Certificate),
        }
        if settings.ca.is_some() || settings.certificate.is_some() {
            options = options.require_tls(true);
        }
        let client = options.connect(servers).await.map_err(|error| failed(error.to_string()))?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(REQUEST_TIME)
            .max_ack_inflight(MAX_IN_FLIGHT)
            .build(client.clone());
        Ok(Self { client, jetstream, subjects: Subjects::new(address.name()), changes })
    }

    /// Requests a stored message from any server that has it. Returns `Ok(None)` if there is
    /// none.
    pub(crate) async fn last_message(
        client: &Client,
        stream: &str,
        subject: &str,
    ) -> Result<Option<Message>, String> {
        let api = format!("$JS.API.DIRECT.GET.{stream}.{subject}");
        let message =
            client.request(api, Bytes::new()).await.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => {
                    format!("no server of NATS has the stream {stream}")
                }
                kind => kind.to_string(),
            })?;
        match message.status.map(|status| status.as_u16()) {
            None | Some(200) => Ok(Some(message)),
            // A response of the server, and not a stored message.
            Some(404)
                if message
                    .headers
                    .as_ref()
                    .is_none_or(|headers| headers.get(NATS_SEQUENCE).is_none()) =>
            {
                Ok(None)
            }
            Some(status) => Err(format!("unexpected status {status}")),
        }
    }
}

/// Returns the number of a stored message in its stream.
pub(crate) fn stored_number(message: &Message) -> Option<u64> {
    message.headers.as_ref()?.get(NATS_SEQUENCE)?.as_str().parse().ok()
}

/// Returns the settings of the stream of a fleet.
pub(crate) fn stream_config(subjects: &Subjects, replicas: StreamReplicas) -> Config {
    let (source, destination) = subjects.republished();
    Config {
        name: subjects.stream(),
        description: Some("The state of a relayer".to_owned()),
        subjects: subjects.all_stored(),
        max_messages_per_subject: 1,
        num_replicas: u8::from(replicas).into(),
        allow_direct: true,
        republish: Some(Republish { source, destination, headers_only: false }),
        ..Config::default()
    }
}

/// Returns the settings of the stream of plans.
pub(crate) fn plan_stream_config(subjects: &Subjects, replicas: StreamReplicas) -> Config {
    let (source, destination) = (subjects.plan(), subjects.planned());
    Config {
        name: subjects.plan_stream(),
        description: Some("The modules of a fleet".to_owned()),
        subjects: vec![subjects.plan()],
        max_messages_per_subject: 1,
        num_replicas: u8::from(replicas).into(),
        allow_direct: true,
        republish: Some(Republish { source, destination, headers_only: false }),
        ..Config::default()
    }
}

/// Checks that an existing stream has the settings that readers need.
pub(crate) fn check_stream(found: &Config, expected: &Config) -> Result<(), String> {
    let is_expected = found.subjects == expected.subjects
        && found.republish == expected.republish
        && found.allow_direct
        && found.max_messages_per_subject == expected.max_messages_per_subject;
    if is_expected {
        return Ok(());
    }
    let name = &expected.name;
    Err(format!(
        "the stream {name} has other subjects, republish, allow_direct or max_msgs_per_subject than a fleet; remove it with `nats stream rm {name}`, or choose another name for the fleet"
    ))
}

/// Returns the time to wait before an attempt to connect: other clients of a server that comes back
/// wait for other times.
fn reconnect_delay(attempts: usize) -> Duration {
    let mut backoff = Backoff::new(MIN_RECONNECT, MAX_RECONNECT);
    for _ in 1..attempts.min(8) {
        backoff.next_delay();
    }
    backoff.next_delay()
}

/// Returns the name of the machine.
#[must_use]
pub fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "relayer-rest".to_owned() } else { name }
}

/// Returns a part of a URL without percent-encoding.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn readable(key: &'static str, file: &PathBuf) -> Result<(), FleetError> {
    let opened = std::fs::File::open(file);
    opened.map(drop).map_err(|source| FleetError::File { key, file: file.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::{MAX_RECONNECT, MIN_RECONNECT, reconnect_delay};
    use std::time::Duration;

    #[test]
    fn clients_connect_again_at_different_times_and_less_often() {
        let range = |attempts| {
            let delays = (0..1_000).map(|_| reconnect_delay(attempts));
            delays.fold((Duration::MAX, Duration::ZERO), |(min, max), delay| {
                (min.min(delay), max.max(delay))
            })
        };
        for (attempts, longest) in
            [(1, MIN_RECONNECT), (3, 4 * MIN_RECONNECT), (8, MAX_RECONNECT), (1_000, MAX_RECONNECT)]
        {
            let (min, max) = range(attempts);
            assert!(max <= longest && max > longest * 9 / 10, "{attempts}: {max:?}");
            assert!(min < longest * 6 / 10, "{attempts}: {min:?}");
        }
    }
}
