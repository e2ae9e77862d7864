//! Two writers and several readers on a network and a stream that fail at random, in virtual
//! time. `FLEET_SCHEDULES=100000` simulates more schedules, and `FLEET_SEED` begins with another
//! one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem::take;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use relayer_rest_state::{
    ChainConfig, ChainId, ChainKind, Object, RelayerState, Stale, StatePublisher, Worker,
};

use crate::assemble::Assembler;
use crate::message::{Alive, Commit, Index, Lease, Message};
use crate::part::{Part, PartName};
use crate::reader::{self, Age, Reader};
use crate::writer::{self, Appended, Content, MAX_SILENCE, Observation, Stored, Writer};

const WORKERS: u64 = 70;
const WRITERS: usize = 2;
const READERS: usize = 3;

/// The time of a simulation in which the network, the stream, processes and the relayer fail.
const FAULTY: Duration = Duration::from_secs(60);

/// The time after which the newest state must be everywhere.
const RECOVERY: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(500);
const MAX_RESPONSE: Duration = Duration::from_secs(2);
const MAX_UNCONFIRMED: Duration = Duration::from_secs(4);

fn chains(state: u64) -> Vec<ChainConfig> {
    let listed = (0..4).filter(|chain| !(state / 5 + chain).is_multiple_of(3));
    let chain = |chain| ChainConfig {
        max_gas: Some(state / 4),
        ..ChainConfig::new(format!("chain-{chain}"), ChainKind::CosmosSdk)
    };
    listed.map(chain).collect()
}

/// Returns the workers of a state: each one has the number of the state that changed it last.
fn workers(state: u64) -> Vec<Worker> {
    let worker = |place: u64| Worker {
        id: (0..=state).rev().find(|state| state % WORKERS == place).unwrap_or_default(),
        object: Object::Wallet { chain_id: format!("chain-{place:02}").into() },
        data: None,
    };
    (0..WORKERS).map(worker).collect()
}

/// Returns the numbers of the state and of the chains in these parts, which must be of one state
/// each.
fn state_of(assembler: &mut Assembler, generation: &reader::Action) -> (u64, u64) {
    let reader::Action::Install { generation, times, parts } = generation else { unreachable!() };
    let replica = assembler.assemble(*generation, *times, parts).expect("its parts are complete");
    let mut state = replica.status.expect("a state is published first");
    state.workers.sort_by_key(|worker| worker.object.order_key().concat());
    let number = state.workers.iter().map(|worker| worker.id).max().unwrap();
    assert_eq!(state.workers, workers(number), "torn at {number}");
    let mut listed: Vec<_> = replica.chains.into_iter().map(|(_, chain)| chain.unwrap()).collect();
    listed.sort_by(|one, other| one.id.cmp(&other.id));
    let first = 4 * listed[0].max_gas.unwrap();
    let of_chains = (first..first + 4).rfind(|number| listed == chains(*number));
    let of_chains = of_chains.unwrap_or_else(|| panic!("torn chains at {number}"));
    let ids: Vec<ChainId> = listed.into_iter().map(|chain| chain.id).collect();
    assert_eq!(replica.chain_ids.unwrap(), ids);
    (number, of_chains)
}

/// The stream and the servers of NATS.
#[derive(Default)]
struct Stream {
    sequence: u64,
    /// The attempt and the place in it of the last message.
    last: (u64, usize),
    lease: Option<Bytes>,
    index: Option<(u64, Bytes)>,
    parts: BTreeMap<PartName, (u64, Bytes)>,
}

impl Stream {
    /// Stores a message of an attempt, whose first message is after the one with this number.
    fn store(&mut self, after: u64, id: (u64, usize), message: &Stored) -> bool {
        let is_next = match id {
            (_, 0) => self.sequence == after,
            (attempt, place) => self.last == (attempt, place - 1),
        };
        if !is_next {
            return false;
        }
        self.last = id;
        self.sequence += 1;
        match message.clone() {
            Stored::Lease(bytes) => self.lease = Some(bytes),
            Stored::Index(bytes) => self.index = Some((self.sequence, bytes)),
            Stored::Part(name, bytes) => drop(self.parts.insert(name, (self.sequence, bytes))),
            Stored::Commit(_) => {}
        }
        true
    }

    fn content(&self) -> Content {
        let index = self.index.as_ref();
        let after = index.map_or(u64::MAX, |(sequence, _)| *sequence);
        let uncommitted = self.parts.iter().filter(|(_, (sequence, _))| *sequence > after);
        Content {
            sequence: self.sequence,
            lease: self.lease.as_ref().map(|lease| Lease::decode(lease).unwrap()),
            index: index.map(|(_, index)| Index::decode(index).unwrap()),
            uncommitted: uncommitted.map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// A request to the stream.
#[derive(Debug, Clone)]
enum Request {
    Read,
    Append { after: u64, attempt: u64, first: usize, messages: Vec<Stored>, is_answered: bool },
    Remove(Vec<PartName>, u64),
    ReadIndex,
    ReadPart(PartName),
}

/// Something that happens to a node.
#[derive(Debug, Clone)]
enum Incoming {
    Wake,
    Poll,
    Response { state: u64, has_chains: bool, requested: Instant },
    NoResponse,
    Alive(Bytes),
    Stored(Stored),
    Content(Option<Box<Content>>),
    Appended(Appended),
    Connected,
    Index(Option<Bytes>),
    Part(PartName, Option<Bytes>),
    ClockRequest { reader: usize, requested: Instant },
    Clock(Bytes, Instant),
}

#[derive(Debug, Clone)]
enum Occurrence {
    Node(usize, Incoming),
    Stream(usize, Request),
    Fault,
    State,
}

struct WriterNode {
    writer: Writer,
    publisher: StatePublisher,
    confirmed: Option<Instant>,
    chains_confirmed: Option<Instant>,
    /// Whether the next response has the chains.
    refreshes: bool,
    is_active: bool,
}

impl WriterNode {
    fn new(name: String, random: fastrand::Rng, now: Instant) -> Self {
        Self {
            writer: Writer::new(name, MAX_UNCONFIRMED, random, now),
            publisher: StatePublisher::new(),
            confirmed: None,
            chains_confirmed: None,
            refreshes: true,
            is_active: false,
        }
    }
}

struct ReaderNode {
    reader: Reader,
    assembler: Assembler,
    generation: Option<relayer_rest_state::FleetGeneration>,
    state: Option<u64>,
    chains: Option<u64>,
}

/// Faults of a node.
#[derive(Debug, Clone, Copy)]
struct Node {
    paused_until: Instant,
    is_partitioned: bool,
    /// The difference of its wall clock.
    skew: Duration,
    next_wake: Option<Instant>,
}

struct Simulation {
    random: fastrand::Rng,
    start: Instant,
    now: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64)>>,
    occurrences: BTreeMap<u64, Occurrence>,
    number: u64,
    nodes: Vec<Node>,
    writers: Vec<WriterNode>,
    readers: Vec<ReaderNode>,
    stream: Stream,
    is_down: bool,
    is_relayer_down: bool,
    /// The time at which each state of the relayer began.
    states: Vec<Instant>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        // A clock begins long before: a stale state may be older than the simulation.
        let start = Instant::now() + Duration::from_secs(1_000);
        let mut node = |_| Node {
            paused_until: start,
            is_partitioned: false,
            skew: Duration::from_secs(random.u64(..100)),
            next_wake: None,
        };
        let nodes: Vec<_> = (0..WRITERS + READERS).map(&mut node).collect();
        let writer = |number| WriterNode::new(format!("writer {number}"), random.fork(), start);
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let reader = |_| ReaderNode {
            reader: Reader::new(random.fork()),
            assembler: Assembler::default(),
            generation: None,
            state: None,
            chains: None,
        };
        let readers: Vec<_> = (0..READERS).map(reader).collect();
        let mut simulation = Self {
            random,
            start,
            now: start,
            queue: BinaryHeap::new(),
            occurrences: BTreeMap::new(),
            number: 0,
            nodes,
            writers,
            readers,
            stream: Stream::default(),
            is_down: false,
            is_relayer_down: false,
            states: vec![start],
        };
        for writer in 0..WRITERS {
            simulation.at(Duration::ZERO, Occurrence::Node(writer, Incoming::Poll));
        }
        for node in 0..WRITERS + READERS {
            let is_reader = node >= WRITERS;
            let first = if is_reader { Incoming::Connected } else { Incoming::Wake };
            simulation.later(Duration::from_secs(10), Occurrence::Node(node, first));
        }
        simulation.at(Duration::ZERO, Occurrence::State);
        simulation.at(Duration::ZERO, Occurrence::Fault);
        simulation
    }

    fn at(&mut self, delay: Duration, occurrence: Occurrence) {
        self.number += 1;
        self.queue.push(Reverse((self.now + delay, self.number)));
        self.occurrences.insert(self.number, occurrence);
    }

    /// Lets something occur at a random time.
    fn later(&mut self, max: Duration, occurrence: Occurrence) {
        let delay = max.mul_f64(self.random.f64());
        self.at(delay, occurrence);
    }

    fn is_faulty(&self) -> bool {
        self.now < self.start + FAULTY
    }

    /// Sends a message over the network, which may lose, repeat or delay it.
    fn send(&mut self, node: usize, occurrence: Occurrence) {
        let is_lost = self.is_down || self.nodes[node].is_partitioned;
        if is_lost || self.is_faulty() && self.random.u8(..100) < 3 {
            return;
        }
        if self.is_faulty() && self.random.u8(..100) < 2 {
            self.later(Duration::from_secs(5), occurrence.clone());
        }
        let is_slow = self.is_faulty() && self.random.u8(..100) < 5;
        let delay = if is_slow { Duration::from_secs(3) } else { Duration::from_millis(5) };
        self.later(delay, occurrence);
    }

    fn run(&mut self) {
        let end = self.start + FAULTY + RECOVERY;
        while let Some(Reverse((time, number))) = self.queue.pop() {
            if time > end {
                break;
            }
            self.now = time;
            let occurrence = self.occurrences.remove(&number).unwrap();
            match occurrence {
                Occurrence::Node(node, incoming) => {
                    let paused_until = self.nodes[node].paused_until;
                    if paused_until > self.now {
                        let delay = paused_until - self.now;
                        self.at(delay, Occurrence::Node(node, incoming));
                    } else if node < WRITERS {
                        self.writer(node, incoming);
                    } else {
                        self.reader(node, incoming);
                    }
                }
                Occurrence::Stream(node, request) => self.request(node, request),
                Occurrence::Fault => self.fault(),
                Occurrence::State => {
                    self.states.push(self.now);
                    if self.is_faulty() {
                        self.later(Duration::from_millis(600), Occurrence::State);
                    }
                }
            }
            self.check_ages();
        }
        self.check_end();
    }

    fn fault(&mut self) {
        let is_faulty = self.is_faulty();
        let node = self.random.usize(..self.nodes.len());
        match self.random.u8(..8) {
            _ if !is_faulty => {
                self.is_down = false;
                self.is_relayer_down = false;
                for node in 0..self.nodes.len() {
                    self.nodes[node].is_partitioned = false;
                    self.connected(node);
                }
                return;
            }
            0..2 => {
                self.nodes[node].is_partitioned = !self.nodes[node].is_partitioned;
                self.connected(node);
            }
            2..4 => {
                let time = Duration::from_secs(8).mul_f64(self.random.f64());
                self.nodes[node].paused_until = self.now + time;
            }
            4 => {
                self.is_down = !self.is_down;
                (0..self.nodes.len()).for_each(|node| self.connected(node));
            }
            5 => self.is_relayer_down = !self.is_relayer_down,
            6 => {
                // A process is started again, with nothing but its settings.
                let random = self.random.fork();
                match node.checked_sub(WRITERS) {
                    None => {
                        self.writers[node] = WriterNode::new("again".to_owned(), random, self.now);
                    }
                    Some(reader) => {
                        self.readers[reader] = ReaderNode {
                            reader: Reader::new(random),
                            assembler: Assembler::default(),
                            generation: None,
                            state: None,
                            chains: None,
                        };
                        self.connected(node);
                    }
                }
            }
            _ => {}
        }
        self.later(Duration::from_secs(4), Occurrence::Fault);
    }

    /// Tells a reader that it is connected.
    fn connected(&mut self, node: usize) {
        let is_connected = !self.is_down && !self.nodes[node].is_partitioned;
        if node >= WRITERS && is_connected {
            self.later(Duration::from_secs(1), Occurrence::Node(node, Incoming::Connected));
        }
    }

    fn wall(&self, node: usize) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) + (self.now - self.start)
            - self.nodes[node].skew
    }

    fn wake_at(&mut self, node: usize, deadline: Instant) {
        let is_earlier = self.nodes[node].next_wake.is_none_or(|next| deadline < next);
        if is_earlier {
            self.nodes[node].next_wake = Some(deadline);
            let delay = deadline.saturating_duration_since(self.now);
            self.at(delay, Occurrence::Node(node, Incoming::Wake));
        }
    }

    fn writer(&mut self, node: usize, incoming: Incoming) {
        let (now, wall) = (self.now, self.wall(node));
        let mut actions = Vec::new();
        let event = match incoming {
            Incoming::Poll => {
                let requested = now;
                if self.is_relayer_down || self.is_faulty() && self.random.u8(..100) < 5 {
                    self.at(MAX_RESPONSE, Occurrence::Node(node, Incoming::NoResponse));
                } else {
                    // The relayer reads its state at any time until it responds.
                    let state = self.states.len() as u64 - 1;
                    let refreshes = take(&mut self.writers[node].refreshes);
                    let has_chains = refreshes || !self.is_faulty() || self.random.u8(..8) == 0;
                    let response = Incoming::Response { state, has_chains, requested };
                    self.later(Duration::from_millis(300), Occurrence::Node(node, response));
                }
                None
            }
            Incoming::Response { state, has_chains, requested } => {
                let own = &mut self.writers[node];
                let relayer =
                    RelayerState { chains: vec!["chain-0".into()], workers: workers(state) };
                if has_chains {
                    own.publisher.set_chains(chains(state)).unwrap();
                    own.chains_confirmed = Some(requested);
                }
                own.publisher.set_state(relayer);
                own.confirmed = Some(requested);
                self.at(POLL, Occurrence::Node(node, Incoming::Poll));
                None
            }
            Incoming::NoResponse => {
                let own = &mut self.writers[node];
                let stale = own.confirmed.map(|since| Stale { since, chains: true });
                own.publisher.set_stale(stale);
                self.at(POLL, Occurrence::Node(node, Incoming::Poll));
                None
            }
            Incoming::Alive(alive) => Some(writer::Event::Alive(Alive::decode(&alive).unwrap())),
            Incoming::Content(content) => {
                Some(writer::Event::Read(content.map(|content| *content)))
            }
            Incoming::Appended(appended) => Some(writer::Event::Appended(appended)),
            Incoming::ClockRequest { reader, requested } => {
                let reading = self.writers[node].writer.clock().reading(now).encode();
                if self.writers[node].writer.is_active() {
                    self.send(
                        reader,
                        Occurrence::Node(reader, Incoming::Clock(reading, requested)),
                    );
                }
                None
            }
            Incoming::Wake => {
                self.nodes[node].next_wake = None;
                actions.extend(self.writers[node].writer.wake(now, wall));
                None
            }
            other => unreachable!("{other:?}"),
        };
        let own = &mut self.writers[node];
        let snapshot = own.publisher.reader().snapshot();
        // The chains and the state are two publications here.
        if snapshot.status().value().is_ok() {
            let WriterNode { confirmed, chains_confirmed, .. } = *own;
            let observation = Observation { snapshot, confirmed, chains_confirmed };
            actions.extend(own.writer.handle(writer::Event::Observed(observation), now, wall));
        }
        if let Some(event) = event {
            actions.extend(own.writer.handle(event, now, wall));
        }
        let deadline = own.writer.deadline();
        for action in actions {
            match action {
                writer::Action::Read => self.send_request(node, Request::Read),
                writer::Action::Append { after, messages } => {
                    let attempt = self.random.u64(..);
                    let request =
                        Request::Append { after, attempt, first: 0, messages, is_answered: true };
                    self.send_request(node, request);
                }
                writer::Action::Remove { names, until } => {
                    self.send_request(node, Request::Remove(names, until));
                }
                writer::Action::Send(alive) => {
                    for other in 0..self.nodes.len() {
                        if !self.nodes[node].is_partitioned {
                            let alive = Incoming::Alive(alive.clone());
                            self.send(other, Occurrence::Node(other, alive));
                        }
                    }
                }
                writer::Action::Refresh => self.writers[node].refreshes = true,
                writer::Action::Role(epoch) => self.writers[node].is_active = epoch.is_some(),
            }
        }
        self.wake_at(node, deadline.max(now));
    }

    /// Sends a request to the stream, whose client notices within a time if it is lost.
    fn send_request(&mut self, node: usize, request: Request) {
        let is_lost = self.is_down
            || self.nodes[node].is_partitioned
            || self.is_faulty() && self.random.u8(..100) < 5;
        let lost = match &request {
            Request::Read => Some(Incoming::Content(None)),
            Request::Append { .. } => Some(Incoming::Appended(Appended::Unknown)),
            _ => None,
        };
        match request {
            Request::Append { after, attempt, mut messages, .. } if is_lost => {
                // Some arrive, and others later, when the client has connected again.
                let count = messages.len();
                let rest = messages.split_off(self.random.usize(..=count));
                let append = |first, messages| Request::Append {
                    after,
                    attempt,
                    first,
                    messages,
                    is_answered: false,
                };
                let second = append(messages.len(), rest);
                let first = append(0, messages);
                self.later(Duration::from_millis(5), Occurrence::Stream(node, first));
                if self.random.bool() {
                    self.later(Duration::from_secs(6), Occurrence::Stream(node, second));
                }
            }
            request if !is_lost => {
                let is_answer_lost = self.is_faulty() && self.random.u8(..100) < 3;
                let request = match request {
                    Request::Append { after, attempt, first, messages, .. } => {
                        let is_answered = !is_answer_lost;
                        Request::Append { after, attempt, first, messages, is_answered }
                    }
                    other => other,
                };
                self.later(Duration::from_millis(5), Occurrence::Stream(node, request));
                if !is_answer_lost {
                    return;
                }
            }
            _ => {}
        }
        if let Some(lost) = lost {
            self.at(Duration::from_secs(2), Occurrence::Node(node, lost));
        }
    }

    fn request(&mut self, node: usize, request: Request) {
        match request {
            Request::Read => {
                let content = Some(Box::new(self.stream.content()));
                self.at(
                    Duration::from_millis(1),
                    Occurrence::Node(node, Incoming::Content(content)),
                );
            }
            Request::Append { after, attempt, first, messages, is_answered } => {
                let mut result = Appended::Stored(after + messages.len() as u64);
                for (place, message) in (first..).zip(messages) {
                    // The server handles each message for itself.
                    if !self.stream.store(after, (attempt, place), &message) {
                        result = Appended::Conflict;
                        continue;
                    }
                    for reader in WRITERS..self.nodes.len() {
                        let stored = Incoming::Stored(message.clone());
                        self.send(reader, Occurrence::Node(reader, stored));
                    }
                }
                if is_answered {
                    let appended = Incoming::Appended(result);
                    self.at(Duration::from_millis(1), Occurrence::Node(node, appended));
                }
            }
            Request::Remove(names, until) => {
                let parts = &mut self.stream.parts;
                parts.retain(|name, (sequence, _)| !names.contains(name) || *sequence > until);
            }
            Request::ReadIndex => {
                let index = self.stream.index.as_ref().map(|(_, index)| index.clone());
                self.send(node, Occurrence::Node(node, Incoming::Index(index)));
            }
            Request::ReadPart(name) => {
                let part = self.stream.parts.get(&name).map(|(_, part)| part.clone());
                self.send(node, Occurrence::Node(node, Incoming::Part(name, part)));
            }
        }
    }

    fn reader(&mut self, node: usize, incoming: Incoming) {
        let (now, wall) = (self.now, self.wall(node));
        let part = |bytes: Bytes| Part::from_compressed(&bytes).unwrap();
        let own = &mut self.readers[node - WRITERS];
        let event = match incoming {
            Incoming::Wake => {
                self.nodes[node].next_wake = None;
                None
            }
            Incoming::Connected => Some(reader::Event::Connected),
            Incoming::Alive(alive) => Some(reader::Event::Alive(Alive::decode(&alive).unwrap())),
            Incoming::Stored(Stored::Part(name, bytes)) => {
                Some(reader::Event::Part(name, part(bytes)))
            }
            Incoming::Stored(Stored::Commit(bytes)) => {
                Some(reader::Event::Commit(Commit::decode(&bytes).unwrap()))
            }
            Incoming::Stored(_) => return,
            Incoming::Index(index) => {
                Some(reader::Event::Index(index.map(|index| Index::decode(&index).unwrap())))
            }
            Incoming::Part(name, bytes) => Some(reader::Event::Read(name, bytes.map(part))),
            Incoming::Clock(reading, requested) => {
                Some(reader::Event::Clock(Message::decode(&reading).unwrap(), requested))
            }
            other => unreachable!("{other:?}"),
        };
        let actions = match event {
            Some(event) => own.reader.handle(event, now, wall),
            None => own.reader.wake(now),
        };
        let deadline = own.reader.deadline(now);
        for action in actions {
            match action {
                reader::Action::ReadIndex => {
                    self.send(node, Occurrence::Stream(node, Request::ReadIndex));
                }
                reader::Action::ReadParts(names) => {
                    for name in names {
                        self.send(node, Occurrence::Stream(node, Request::ReadPart(name)));
                    }
                }
                reader::Action::ReadClock => {
                    for writer in 0..WRITERS {
                        let request = Incoming::ClockRequest { reader: node, requested: now };
                        self.send(writer, Occurrence::Node(writer, request));
                    }
                }
                install @ reader::Action::Install { .. } => self.installed(node, &install),
            }
        }
        self.wake_at(node, deadline.max(now + Duration::from_millis(1)));
    }

    fn installed(&mut self, node: usize, install: &reader::Action) {
        let own = &mut self.readers[node - WRITERS];
        let reader::Action::Install { generation, .. } = install else { unreachable!() };
        let (state, chains) = state_of(&mut own.assembler, install);
        assert!(own.generation.is_none_or(|before| before < *generation), "an older generation");
        assert!(own.state.is_none_or(|before| before <= state), "{state} after {:?}", own.state);
        // The last state with these chains, and any state with them, are compared.
        let is_older = own.chains.is_some_and(|before| before / 4 > chains / 4);
        assert!(!is_older, "chains of {chains} after those of {:?}", own.chains);
        own.generation = Some(*generation);
        own.state = Some(state);
        own.chains = Some(chains);
    }

    /// Returns the time until which the relayer had a state.
    fn end_of(&self, state: u64) -> Instant {
        self.states.get(usize::try_from(state).unwrap() + 1).copied().unwrap_or(self.now)
    }

    fn check_ages(&self) {
        for (number, own) in self.readers.iter().enumerate() {
            let node = number + WRITERS;
            // A process that is paused responds to no client.
            if self.nodes[node].paused_until > self.now {
                continue;
            }
            let Some(state) = own.state else { continue };
            let end = self.end_of(state);
            match own.reader.age(self.now) {
                Some(Age::Confirmed) => {
                    let age = self.now - end;
                    let max = MAX_SILENCE + MAX_UNCONFIRMED + MAX_SILENCE;
                    assert!(age <= max, "reader {number}: confirmed, but {age:?} old");
                }
                Some(Age::Stale { since, .. }) => {
                    // Before the first sign of life, there are only the wall clocks.
                    if own.reader.has_confirmation() {
                        assert!(since <= end, "reader {number}: younger than the state");
                    }
                }
                None => unreachable!("it is installed"),
            }
        }
    }

    fn check_end(&self) {
        let newest = self.states.len() as u64 - 1;
        let active = self.writers.iter().filter(|own| own.is_active).count();
        assert_eq!(active, 1, "writers at the end");
        for (number, own) in self.readers.iter().enumerate() {
            assert_eq!(own.state, Some(newest), "reader {number} at the end");
            let gas = chains(newest)[0].max_gas;
            let listed = own.chains.map(|state| chains(state)[0].max_gas);
            assert_eq!(listed, Some(gas), "reader {number} at the end");
            let age = own.reader.age(self.now);
            assert_eq!(age, Some(Age::Confirmed), "reader {number} at the end");
        }
    }
}

pub(crate) fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn no_reader_has_a_torn_older_or_rejuvenated_state() {
    let first = variable("FLEET_SEED", 0);
    for seed in first..first + variable("FLEET_SCHEDULES", 50) {
        let simulated = std::panic::catch_unwind(|| Simulation::new(seed).run());
        assert!(simulated.is_ok(), "FLEET_SEED={seed} FLEET_SCHEDULES=1 repeats it");
    }
}
