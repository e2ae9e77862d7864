//! Source: the fleet of another host.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_nats::connection::State;
use async_nats::{Client, Subscriber};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use relayer_rest_common::text::for_log;
use relayer_rest_state::{
    FleetGeneration, NotReady, SourceKind, SourceReporter, Stale, StatePublisher, StateReader,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::sleep_until;
use tracing::{debug, info, warn};

use crate::address::FleetAddress;
use crate::assemble::Assembler;
use crate::connection::{Change, Connection, FleetError, machine_name};
use crate::message::{Alive, ClockReading, Commit, Index, Message, Times};
use crate::part::{Part, PartName, Parts};
use crate::reader::{Action, Age, Event, Reader};
use crate::rollout::{FleetMounts, Following};
use crate::settings::FleetSettings;
use crate::subjects::{Republished, Subjects};

/// The maximum number of parts that are requested at once.
const MAX_REQUESTS: usize = 64;

/// A subscription to a fleet.
pub struct Subscription {
    connection: Connection,
    address: FleetAddress,
    name: String,
    max_stale: Duration,
}

impl Subscription {
    /// Begins to connect to a fleet, whose servers need not be reachable yet. A state is not
    /// known any more when it is older than `max_stale`.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub async fn open(
        address: &FleetAddress,
        settings: &FleetSettings,
        max_stale: Duration,
    ) -> Result<Self, FleetError> {
        let connection = Connection::open(address, settings).await?;
        let name = settings.name.clone().unwrap_or_else(machine_name);
        Ok(Self { connection, address: address.clone(), name, max_stale })
    }

    /// Creates a follower of the plan of the fleet, for the mounts of this host, which serves this
    /// state.
    #[must_use]
    pub fn following(&self, mounts: Arc<dyn FleetMounts>, state: StateReader) -> Following {
        Following::new(&self.connection, &self.name, mounts, state)
    }

    /// Publishes the state of the fleet until the future is dropped.
    pub async fn run(self, publisher: StatePublisher) {
        let Self { connection, address, max_stale, .. } = self;
        let Connection { client, subjects, mut changes, .. } = connection;
        let source = publisher.add_source(SourceKind::Fleet, address.to_string());
        let reason = NotReady {
            message: "the state of the fleet has not been read yet".to_owned(),
            ..NotReady::default()
        };
        publisher.set_epoch(None);
        publisher.set_not_ready(reason.clone());
        publisher.set_chains_not_ready(reason);
        let republished = client.subscribe(subjects.republished().1).await;
        let alive = client.subscribe(subjects.alive()).await;
        let (Ok(mut republished), Ok(mut alive)) = (republished, alive) else { return };
        let (sender, mut responses) = unbounded_channel();
        let mut reader = Reader::new(fastrand::Rng::new());
        let requests = Requests { client, subjects, sender };
        let mut replica = ReplicaPublisher {
            publisher,
            source,
            assembler: Assembler::default(),
            max_stale,
            age: None,
            telemetry_stale: None,
            is_expired: false,
        };
        loop {
            let event = tokio::select! {
                biased;
                () = sleep_until(reader.deadline(Instant::now()).into()) => {
                    let actions = reader.wake(Instant::now());
                    requests.run(actions, &mut reader, &mut replica);
                    continue;
                }
                () = replica.expiry() => {
                    replica.expire();
                    continue;
                }
                Some(change) = changes.recv() => match replica.connection_changed(&address, change) {
                    Some(event) => event,
                    None => continue,
                },
                Some(event) = responses.recv() => event,
                event = next_republished(&mut republished, &requests.subjects) => match event {
                    Ok(event) => event,
                    Err(problem) => {
                        replica.rejected(&problem);
                        continue;
                    }
                },
                Some(message) = alive.next() => match Alive::decode(&message.payload) {
                    Ok(alive) => Event::Alive(alive),
                    Err(error) => {
                        replica.rejected(&format!("the sign of life of the writer: {error}"));
                        continue;
                    }
                },
            };
            let actions = reader.handle(event, Instant::now(), SystemTime::now());
            requests.run(actions, &mut reader, &mut replica);
        }
    }
}

/// Returns the next message of the stream.
async fn next_republished(messages: &mut Subscriber, subjects: &Subjects) -> Result<Event, String> {
    let Some(message) = messages.next().await else {
        // The client ends with the process.
        return std::future::pending().await;
    };
    match subjects.parse_republished(&message.subject) {
        Some(Republished::Part(name)) => match Part::from_compressed(&message.payload) {
            Ok(part) => Ok(Event::Part(name, part)),
            Err(error) => Err(format!("the part {name} {error}")),
        },
        Some(Republished::Commit) => Commit::decode(&message.payload)
            .map(Event::Commit)
            .map_err(|error| format!("the commit: {error}")),
        None => Err(format!("the subject {} is unknown", for_log(&message.subject))),
    }
}

/// Sends the requests of a reader.
struct Requests {
    client: Client,
    subjects: Subjects,
    sender: UnboundedSender<Event>,
}

impl Requests {
    /// Carries out the actions of a reader, and publishes its age.
    fn run(&self, actions: Vec<Action>, reader: &mut Reader, replica: &mut ReplicaPublisher) {
        for action in actions {
            let is_request = !matches!(action, Action::Install { .. });
            if is_request && self.client.connection_state() != State::Connected {
                // The reader asks again when it is connected.
                continue;
            }
            let (client, sender) = (self.client.clone(), self.sender.clone());
            let (stream, subjects) = (self.subjects.stream(), self.subjects.clone());
            match action {
                Action::ReadIndex => drop(tokio::spawn(async move {
                    let read = Connection::last_message(&client, &stream, &subjects.index()).await;
                    let decoded = read.and_then(|message| decoded(message, Index::decode));
                    sent(&sender, "the index", decoded.map(Event::Index));
                })),
                Action::ReadParts(names) => drop(tokio::spawn(async move {
                    let read = |name: PartName| {
                        let (client, stream) = (client.clone(), stream.clone());
                        let subject = subjects.part(&name);
                        async move {
                            let read = Connection::last_message(&client, &stream, &subject).await;
                            let part = read.and_then(|part| decoded(part, Part::from_compressed));
                            part.map(|part| Event::Read(name, part))
                        }
                    };
                    let mut parts = stream::iter(names).map(read).buffer_unordered(MAX_REQUESTS);
                    while let Some(part) = parts.next().await {
                        sent(&sender, "a part", part);
                    }
                })),
                Action::ReadClock => drop(tokio::spawn(async move {
                    let requested = Instant::now();
                    let response = client.request(subjects.clock(), Bytes::new()).await;
                    let response = response.map_err(|error| error.to_string());
                    let reading = response.and_then(|message| {
                        ClockReading::decode(&message.payload).map_err(|error| error.to_string())
                    });
                    let event = reading.map(|reading| Event::Clock(reading, requested));
                    sent(&sender, "the clock of the writer", event);
                })),
                Action::Install { generation, times, parts } => {
                    let age = reader.age(Instant::now());
                    match replica.install(generation, times, &parts, age) {
                        Ok(()) => reader.accept(),
                        Err(problem) => {
                            reader.reject(Instant::now());
                            replica.rejected(&format!("generation {generation}: {problem}"));
                        }
                    }
                }
            }
        }
        let now = Instant::now();
        replica.update_age(reader.age(now), reader.telemetry_stale(now));
    }
}

fn decoded<T, E: ToString>(
    message: Option<async_nats::Message>,
    decode: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Result<Option<T>, String> {
    message.map(|message| decode(&message.payload).map_err(|error| error.to_string())).transpose()
}

/// Passes a response to the reader, which repeats requests without one.
fn sent(sender: &UnboundedSender<Event>, what: &str, event: Result<Event, String>) {
    match event {
        // The reader has ended, if it cannot be sent.
        Ok(event) => drop(sender.send(event)),
        Err(problem) => debug!(problem = %for_log(&problem), "{what} of the fleet not read"),
    }
}

impl Age {
    fn stale(self) -> Option<Stale> {
        match self {
            Self::Confirmed => None,
            Self::Stale { since, chains } => Some(Stale { since, chains }),
        }
    }
}

/// Publishes generations, with their age.
struct ReplicaPublisher {
    publisher: StatePublisher,
    source: SourceReporter,
    assembler: Assembler,
    max_stale: Duration,
    age: Option<Age>,
    telemetry_stale: Option<Instant>,
    is_expired: bool,
}

impl ReplicaPublisher {
    fn connection_changed(&self, address: &FleetAddress, change: Change) -> Option<Event> {
        match change {
            Change::Connected => {
                info!(fleet = %address, "connected to NATS");
                Some(Event::Connected)
            }
            Change::Failed(problem) => {
                warn!(fleet = %address, problem = %for_log(&problem), "not connected to NATS; retrying");
                self.source.failed(&for_log(&problem));
                None
            }
        }
    }

    fn rejected(&self, problem: &str) {
        warn!(problem = %for_log(problem), "message of the fleet rejected");
        self.source.failed(&for_log(problem));
    }

    /// Publishes a generation with its age.
    fn install(
        &mut self,
        generation: FleetGeneration,
        times: Times,
        parts: &Parts,
        age: Option<Age>,
    ) -> Result<(), String> {
        let replica = self.assembler.assemble(generation, times, parts);
        let replica = replica.map_err(|error| error.to_string())?;
        let stale = age.and_then(Age::stale);
        self.publisher.replicate(replica, stale).map_err(|error| error.to_string())?;
        self.source.responded();
        // A state that expired is replaced as a whole.
        self.is_expired = false;
        self.age = age;
        self.telemetry_stale = None;
        Ok(())
    }

    fn update_age(&mut self, age: Option<Age>, telemetry_stale: Option<Instant>) {
        let Some(age) = age else { return };
        if self.telemetry_stale != telemetry_stale {
            self.telemetry_stale = telemetry_stale;
            self.publisher.set_telemetry_stale(telemetry_stale);
        }
        if self.age == Some(age) {
            return;
        }
        self.age = Some(age);
        match age {
            Age::Confirmed => {
                self.source.responded();
                self.publisher.set_stale(None);
                if std::mem::take(&mut self.is_expired) {
                    self.publisher.set_ready();
                }
            }
            Age::Stale { .. } => self.publisher.set_stale(age.stale()),
        }
    }

    /// Waits until the state is older than its maximum.
    async fn expiry(&self) {
        match self.age {
            Some(Age::Stale { since, .. }) if !self.is_expired => {
                sleep_until((since + self.max_stale).into()).await;
            }
            _ => std::future::pending().await,
        }
    }

    fn expire(&mut self) {
        if self.publisher.reader().snapshot().status().value().is_err() {
            // The writer does not know the state, either.
            self.age = None;
            return;
        }
        self.is_expired = true;
        let for_long = humantime::format_duration(self.max_stale);
        warn!(max_stale = %for_long, "state expired");
        self.publisher.set_not_ready(NotReady {
            message: format!("the fleet has not confirmed the state for {for_long}"),
            ..NotReady::default()
        });
    }
}
