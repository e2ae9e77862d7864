//! Publishes the state of this process to a fleet, or stands by.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use relayer_rest_common::text::for_log;
use relayer_rest_state::{SourceKind, StatePublisher, StateReader};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};
use tracing::{info, warn};

use crate::address::FleetAddress;
use crate::connection::{
    Change, Connection, FleetError, check_stream, machine_name, stream_config,
};
use crate::message::{Alive, Index, Lease, Message};
use crate::rollout::coordination::coordinate;
use crate::rollout::{FleetMounts, Following};
use crate::settings::{FleetSettings, StreamReplicas};
use crate::subjects::Subjects;
use crate::writer::{Action, Appended, Clock, Content, Event, Observation, Stored, Writer};

/// The time after which the stream is read again if it could not be read.
const RETRY: Duration = Duration::from_millis(500);

/// The maximum number of messages after an index that are read. If there are more, all parts are
/// stored again.
const MAX_UNCOMMITTED: u64 = 64;

/// A publication to a fleet.
pub struct Publication {
    connection: Connection,
    address: FleetAddress,
    name: String,
    replicas: StreamReplicas,
    max_unconfirmed: Duration,
}

impl Publication {
    /// Begins to connect to a fleet, whose servers need not be reachable yet. While the source
    /// of the state responds, it confirms the state at least in this interval.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub async fn open(
        address: &FleetAddress,
        settings: &FleetSettings,
        max_unconfirmed: Duration,
    ) -> Result<Self, FleetError> {
        let connection = Connection::open(address, settings).await?;
        let name = settings.name.clone().unwrap_or_else(machine_name);
        let replicas = settings.replicas;
        Ok(Self { connection, address: address.clone(), name, replicas, max_unconfirmed })
    }

    /// Creates a follower of the plan of the fleet, for the mounts of this host, which serves this
    /// state.
    #[must_use]
    pub fn following(&self, mounts: Arc<dyn FleetMounts>, state: StateReader) -> Following {
        Following::new(&self.connection, &self.name, mounts, state)
    }

    /// Publishes the state of a publisher until the future is dropped.
    pub async fn run(self, publisher: StatePublisher) {
        let Self { connection, address, name, replicas, max_unconfirmed } = self;
        let Connection { client, jetstream, subjects, mut changes } = connection;
        // It belongs to the fleet, as a standby.
        publisher.set_epoch(None);
        let state = publisher.reader();
        let mut changed = state.changes();
        let mut writer = Writer::new(name, max_unconfirmed, fastrand::Rng::new(), Instant::now());
        let mut driver = Driver {
            jetstream,
            subjects,
            replicas,
            publisher,
            address,
            reading: None,
            appending: None,
        };
        let (is_active, active) = watch::channel(false);
        let alive = client.subscribe(driver.subjects.alive()).await;
        let clock = client.subscribe(driver.subjects.clock()).await;
        let (Ok(mut alive), Ok(clock)) = (alive, clock) else { return };
        // They end with this future.
        let mut tasks = JoinSet::new();
        tasks.spawn(answer(client, clock, writer.clock(), active.clone()));
        let (jetstream, subjects) = (driver.jetstream.clone(), driver.subjects.clone());
        tasks.spawn(coordinate(jetstream, subjects, replicas, active));
        loop {
            let observation = Event::Observed(observe(&state));
            driver.run(writer.handle(observation, Instant::now(), SystemTime::now())).await;
            is_active.send_if_modified(|is_active| {
                std::mem::replace(is_active, writer.is_active()) != writer.is_active()
            });
            let event = tokio::select! {
                biased;
                () = sleep_until(writer.deadline().into()) => {
                    driver.run(writer.wake(Instant::now(), SystemTime::now())).await;
                    continue;
                }
                Some(content) = pending(&mut driver.reading) => Event::Read(content),
                Some(appended) = pending(&mut driver.appending) => Event::Appended(appended),

                Some(message) = alive.next() => match Alive::decode(&message.payload) {
                    Ok(alive) => Event::Alive(alive),
                    Err(_) => continue,
                },
                Some(change) = changes.recv() => {
                    driver.report(&change);
                    continue;
                }
                _ = changed.changed() => continue,
            };
            driver.run(writer.handle(event, Instant::now(), SystemTime::now())).await;
        }
    }
}

/// Responds to requests for the clock while this process is the writer.
async fn answer(
    client: Client,
    mut requests: Subscriber,
    clock: Clock,
    is_active: watch::Receiver<bool>,
) {
    while let Some(request) = requests.next().await {
        // NATS does not check whether the client may publish to the subject that it names.
        let reply = request.reply.filter(|reply| reply.starts_with("_INBOX."));
        let is_active = *is_active.borrow();
        if let (Some(reply), true) = (reply, is_active) {
            client.publish(reply, clock.reading(Instant::now()).encode()).await.ok();
        }
    }
}

/// Returns the state, and the times at which the relayer confirmed it.
fn observe(state: &StateReader) -> Observation {
    // A confirmation is of the state that was published before it.
    let (confirmed, chains_confirmed) = (state.confirmed(), state.chains_confirmed());
    let snapshot = state.snapshot();
    let is_polled = |kind| matches!(kind, SourceKind::Upstream | SourceKind::Relayer);
    let is_polled = snapshot.sources().value().iter().any(|source| is_polled(source.kind));
    // Other sources publish each change at once.
    let (confirmed, chains_confirmed) = if is_polled {
        (confirmed, chains_confirmed)
    } else {
        (Some(Instant::now()), Some(Instant::now()))
    };
    Observation { snapshot, confirmed, chains_confirmed }
}

/// Waits for a future, and clears it then.
async fn pending<T>(future: &mut Option<BoxFuture<'static, T>>) -> Option<T> {
    let result = match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    };
    *future = None;
    Some(result)
}

/// Carries out the actions of a writer.
struct Driver {
    jetstream: Context,
    subjects: Subjects,
    replicas: StreamReplicas,
    publisher: StatePublisher,
    address: FleetAddress,
    reading: Option<BoxFuture<'static, Option<Content>>>,
    appending: Option<BoxFuture<'static, Appended>>,
}

impl Driver {
    async fn run(&mut self, actions: Vec<Action>) {
        for action in actions {
            let (jetstream, subjects) = (self.jetstream.clone(), self.subjects.clone());
            let replicas = self.replicas;
            match action {
                Action::Read => {
                    self.reading = Some(Box::pin(async move {
                        match read(&jetstream, &subjects, replicas).await {
                            Ok(content) => Some(content),
                            Err(problem) => {
                                warn!(problem = %for_log(&problem), "fleet not readable; retrying");
                                sleep(RETRY).await;
                                None
                            }
                        }
                    }));
                }
                Action::Append { after, messages } => {
                    self.appending = Some(Box::pin(append(jetstream, subjects, after, messages)));
                }
                Action::Remove { names, until } => {
                    tokio::spawn(async move {
                        let Ok(stream) = jetstream.get_stream_no_info(subjects.stream()).await
                        else {
                            return;
                        };
                        for name in names {
                            let purge = stream.purge().filter(subjects.part(&name));
                            // A later message with this name stays.
                            purge.sequence(until + 1).await.ok();
                        }
                    });
                }
                Action::Send(alive) => {
                    let client = jetstream.client();
                    // It would be late when the connection is back.
                    if client.connection_state() == State::Connected {
                        client.publish(subjects.alive(), alive).await.ok();
                    }
                }
                Action::Refresh => {
                    info!(fleet = %self.address, "versions or chains differ from those of the fleet; requesting them from the relayer before the first publication");
                    self.publisher.request_refresh();
                }
                Action::Role(epoch) => {
                    let fleet = &self.address;
                    if let Some(epoch) = epoch {
                        info!(%fleet, epoch, "writing to the fleet");
                    } else {
                        warn!(%fleet, "standing by: another host writes to the fleet");
                    }
                    self.publisher.set_epoch(epoch);
                }
            }
        }
    }

    fn report(&self, change: &Change) {
        match change {
            Change::Connected => info!(fleet = %self.address, "connected to NATS"),
            Change::Failed(problem) => {
                warn!(fleet = %self.address, problem = %for_log(problem), "not connected to NATS; retrying");
            }
        }
    }
}

/// Stores messages, each one after the one before.
async fn append(
    jetstream: Context,
    subjects: Subjects,
    after: u64,
    messages: Vec<Stored>,
) -> Appended {
    let mut acknowledgements = Vec::with_capacity(messages.len());
    // The server rejects all later messages, too, if it rejects one.
    let attempt = fastrand::u128(..);
    let id = |place: usize| format!("{attempt:x}-{place}");
    for (place, message) in messages.into_iter().enumerate() {
        let subject = subjects.stored(&message);
        let (Stored::Lease(payload)
        | Stored::Part(_, payload)
        | Stored::Index(payload)
        | Stored::Commit(payload)) = message;
        let publish = PublishMessage::build().payload(payload).message_id(id(place));
        let publish = match place.checked_sub(1) {
            None => publish.expected_last_sequence(after),
            Some(before) => publish.expected_last_message_id(id(before)),
        };
        match jetstream.send_publish(subject, publish).await {
            Ok(acknowledgement) => acknowledgements.push(acknowledgement),
            Err(error) => {
                warn!(%error, "generation not sent to the fleet; retrying");
                return Appended::Unknown;
            }
        }
    }
    let mut last = after;
    for acknowledgement in acknowledgements {
        match acknowledgement.await {
            Ok(stored) => last = stored.sequence,
            Err(error)
                if matches!(
                    error.kind(),
                    PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId
                ) =>
            {
                return Appended::Conflict;
            }
            Err(error) => {
                warn!(%error, "generation perhaps not stored by the fleet; retrying");
                return Appended::Unknown;
            }
        }
    }
    Appended::Stored(last)
}

/// Reads the content of the stream from the server that appends to it, and creates the stream
/// if there is none.
async fn read(
    jetstream: &Context,
    subjects: &Subjects,
    replicas: StreamReplicas,
) -> Result<Content, String> {
    let config = stream_config(subjects, replicas);
    let stream = jetstream.get_or_create_stream(config.clone()).await;
    let stream = stream.map_err(|error| error.to_string())?;
    check_stream(&stream.cached_info().config, &config)?;
    // A lease that is stored later than this is noticed, because it changes the sequence.
    let sequence = stream.cached_info().state.last_sequence;
    let lease = last(&stream, subjects.lease()).await?;
    let lease = lease.map(|(_, payload)| Lease::decode(&payload));
    let index = last(&stream, subjects.index()).await?;
    let mut uncommitted = Vec::new();
    if let Some((number, _)) = &index {
        let mut next = number + 1;
        while next <= sequence && sequence - number <= MAX_UNCOMMITTED {
            let builder =
                stream.raw_message_builder().sequence(next).next_by_subject(">".to_owned());
            match builder.send().await {
                Ok(message) => {
                    uncommitted.extend(subjects.parse_part(&message.subject));
                    next = message.sequence + 1;
                }
                Err(error) if is_none(&error) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    let number = index.as_ref().map_or(sequence, |(number, _)| *number);
    let index = index.map(|(_, payload)| Index::decode(&payload));
    let index = index.transpose().map_err(|error| error.to_string())?;
    if sequence.saturating_sub(number) > MAX_UNCOMMITTED {
        let parts = index.iter().flat_map(|index| &index.parts);
        uncommitted = parts.map(|(name, _)| name.clone()).collect();
    }
    Ok(Content {
        sequence,
        lease: lease.transpose().map_err(|error| error.to_string())?,
        index,
        uncommitted,
    })
}

/// Returns the number and the payload of the last message with this subject.
async fn last(stream: &Stream, subject: String) -> Result<Option<(u64, Bytes)>, String> {
    match stream.get_last_raw_message_by_subject(&subject).await {
        Ok(message) => Ok(Some((message.sequence, message.payload))),
        Err(error) if is_none(&error) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn is_none(error: &async_nats::error::Error<LastRawMessageErrorKind>) -> bool {
    matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound)
}
