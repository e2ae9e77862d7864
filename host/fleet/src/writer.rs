//! The writer of a fleet, without its connection: from snapshots and messages to messages.
//!
//! The stream of a fleet has one writer, because each message names the message before it: the
//! server rejects the messages of a writer after another one has stored a lease. So a writer that
//! was paused or partitioned cannot publish an older state when it goes on.

use std::collections::BTreeMap;
use std::mem::replace;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use relayer_rest_state::{FleetGeneration, Generation, Snapshot};

use crate::cut::Cutter;
use crate::message::{Alive, ClockReading, Commit, Index, Lease, Message, Times, VERSION};
use crate::part::{PartDigest, PartName, Parts};
use crate::state_part::is_of_chains;

/// The time between two signs of life.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// The time without a sign of life after which a standby takes over, and a reader considers its
/// state stale.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(3);

/// The maximum of a random time that a standby waits longer, so that several do not compete.
const SILENCE_JITTER: Duration = Duration::from_millis(500);

/// The minimum time between two commits: publications within it are one.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a writer waits for the versions and chains of its relayer, if its own may be older
/// than the stored ones. Then it publishes its own.
const MAX_WAIT_FOR_CHAINS: Duration = Duration::from_mins(1);

/// The interval in which the stream is compared with the parts of this writer: messages of a
/// connection that was lost may arrive later.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// A message to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    Lease(Bytes),
    Part(PartName, Bytes),
    Index(Bytes),
    Commit(Bytes),
}

/// The content of the stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// The number of the last message.
    pub(crate) sequence: u64,
    pub(crate) lease: Option<Lease>,
    pub(crate) index: Option<Index>,
    /// The parts that were stored after the index, by a writer that did not commit them.
    pub(crate) uncommitted: Vec<PartName>,
}

/// The state of the relayer at a time.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The time of the request to which the relayer responded with this state.
    pub(crate) confirmed: Option<Instant>,
    /// The time of the first request to which the relayer responded with these versions and chains.
    pub(crate) chains_confirmed: Option<Instant>,
}

/// The input of a writer.
#[derive(Debug)]
pub(crate) enum Event {
    /// The state was published, or its time has come.
    Observed(Observation),
    /// The sign of life of another writer.
    Alive(Alive),
    /// The content of the stream, some time after [`Action::Read`]; none if it could not be read.
    Read(Option<Content>),
    /// The result of [`Action::Append`].
    Appended(Appended),
}

/// The result of storing messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// All are stored; the last one has this number.
    Stored(u64),
    /// Another writer has stored a message before them.
    Conflict,
    /// Some may be stored.
    Unknown,
}

/// The output of a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read the content of the stream, from the server that appends to it.
    Read,
    /// Store messages one after the other, if the last one of the stream has this number, and no
    /// other message is stored between them.
    Append { after: u64, messages: Vec<Stored> },
    /// Remove the stored messages of parts, up to this number.
    Remove { names: Vec<PartName>, until: u64 },
    /// Send a sign of life.
    Send(Bytes),
    /// Request the versions and chains from the relayer.
    Refresh,
    /// Another role: an epoch for a writer that has stored a generation, none for a standby and
    /// for a writer that cannot store any.
    Role(Option<u64>),
}

/// The clock of a writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    name: u64,
    start: Instant,
}

impl Clock {
    pub(crate) fn reading(self, now: Instant) -> ClockReading {
        let time = now.saturating_duration_since(self.start);
        ClockReading { version: VERSION, clock: self.name, time }
    }
}

/// A writer, or a standby.
#[derive(Debug)]
pub(crate) struct Writer {
    name: String,
    /// The name of this process's clock, and its beginning.
    clock: u64,
    start: Instant,
    /// The maximum time between two confirmations of a source that responds.
    max_unconfirmed: Duration,
    cutter: Cutter,
    random: fastrand::Rng,
    role: Role,
    /// Whether it has waited for signs of life of another writer.
    has_waited: bool,
    /// The newest epoch of another writer.
    epoch: u64,
    observation: Option<Observation>,
    next_alive: Instant,
}

#[derive(Debug)]
enum Role {
    /// Takes over at this time, unless another writer sends a sign of life.
    Standby {
        takes_over: Instant,
    },
    /// Waits for the content of the stream.
    Reading(Option<Active>),
    /// Waits until its lease is stored.
    Claiming(Active),
    Active(Active),
}

/// The tenure of a writer.
#[derive(Debug)]
struct Active {
    epoch: u64,
    /// States that were confirmed before this time may be older than those of the writer
    /// before.
    began: Instant,
    /// The number of the last message of the stream.
    sequence: u64,
    /// The generation in the stream.
    committed: Option<Committed>,
    /// The generation that is being stored.
    pending: Option<Committed>,
    next_commit: Instant,
    next_check: Instant,
    /// The time since which the server has not answered.
    waits_since: Option<Instant>,
    /// The time until which it waits for versions and chains, because its own differ from
    /// those of the writer before, which may be newer.
    awaits_chains: Option<Instant>,
    /// Whether its role was announced.
    is_announced: bool,
    /// The time at which the relayer confirmed the committed generation.
    confirmed: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Committed {
    generation: FleetGeneration,
    /// Its snapshot in this process; none if another writer has committed it.
    snapshot: Option<Generation>,
    /// The digests in the stream, without uncommitted ones.
    parts: BTreeMap<PartName, PartDigest>,
    /// The parts that it removes.
    removed: Vec<PartName>,
}

impl Writer {
    /// Creates a standby with this name, for operators.
    pub(crate) fn new(
        name: String,
        max_unconfirmed: Duration,
        mut random: fastrand::Rng,
        now: Instant,
    ) -> Self {
        Self {
            max_unconfirmed,
            name,
            clock: random.u64(..),
            start: now,
            cutter: Cutter::default(),
            // A new fleet has no writer to wait for.
            role: Role::Standby { takes_over: now },
            has_waited: false,
            random,
            epoch: 0,
            observation: None,
            next_alive: now,
        }
    }

    /// Returns the time at which [`Self::wake`] is due.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.role {
            Role::Standby { takes_over } => *takes_over,
            Role::Reading(None) | Role::Claiming(_) => self.next_alive + ALIVE_INTERVAL,
            Role::Reading(Some(_)) => self.next_alive,
            Role::Active(active) => {
                // The end of a wait is noticed at the next sign of life.
                let is_due = active.pending.is_none() && self.has_news(active, active.next_commit);
                if is_due { self.next_alive.min(active.next_commit) } else { self.next_alive }
            }
        }
    }

    /// Returns its clock.
    pub(crate) fn clock(&self) -> Clock {
        Clock { name: self.clock, start: self.start }
    }

    /// Carries out the actions that are due.
    pub(crate) fn wake(&mut self, now: Instant, wall: SystemTime) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Role::Standby { takes_over } = self.role
            && takes_over <= now
        {
            self.role = Role::Reading(None);
            actions.push(Action::Read);
        }
        self.commit(now, wall, &mut actions);
        self.check(now, &mut actions);
        self.withdraw(now, &mut actions);
        if self.next_alive <= now {
            self.next_alive = now + ALIVE_INTERVAL;
            actions.extend(self.alive(now).map(|alive| Action::Send(alive.encode())));
        }
        actions
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, event: Event, now: Instant, wall: SystemTime) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Observed(observation) => {
                self.observation = Some(observation);
                self.confirm();
            }
            Event::Alive(alive) => self.alive_seen(&alive, now, &mut actions),
            Event::Read(content) => self.read(content, now, wall, &mut actions),
            Event::Appended(appended) => self.appended(appended, now, &mut actions),
        }
        self.commit(now, wall, &mut actions);
        actions
    }

    fn alive(&self, now: Instant) -> Option<Alive> {
        let (Role::Active(active) | Role::Reading(Some(active))) = &self.role else { return None };
        if active.is_cut_off(now) {
            // Another writer may reach the stream.
            return None;
        }
        let stale = self.observation.as_ref().and_then(|seen| seen.snapshot.stale());
        // The process may have been paused, or a newer generation could not be stored.
        let is_recent =
            active.confirmed.is_some_and(|confirmed| now < confirmed + self.max_unconfirmed);
        Some(Alive {
            version: VERSION,
            epoch: active.epoch,
            generation: active.committed.as_ref().map(|committed| committed.generation),
            clock: self.clock,
            time: now - self.start,
            confirmed: active.confirmed.map(|confirmed| confirmed - self.start),
            is_confirming: stale.is_none() && is_recent,
            chains: stale.is_none_or(|stale| stale.chains),
            telemetry_stale: self.observation.as_ref().and_then(|seen| {
                let since = seen.snapshot.telemetry().stale()?;
                Some(since.saturating_duration_since(self.start))
            }),
        })
    }

    /// Returns whether it is the writer.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.role, Role::Active(_) | Role::Reading(Some(_)))
    }

    /// Withdraws the announced role if no generation can be stored.
    fn withdraw(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let Role::Active(active) | Role::Reading(Some(active)) = &mut self.role
            && active.is_announced
            && active.is_cut_off(now)
        {
            active.is_announced = false;
            actions.push(Action::Role(None));
        }
    }

    fn alive_seen(&mut self, alive: &Alive, now: Instant, actions: &mut Vec<Action>) {
        if alive.clock == self.clock || alive.epoch < self.epoch {
            return;
        }
        self.epoch = alive.epoch;
        match &self.role {
            Role::Active(active) | Role::Reading(Some(active)) if active.epoch >= alive.epoch => {}
            _ => self.stand_by(now, actions),
        }
    }

    fn stand_by(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.has_waited = true;
        let takes_over = now + MAX_SILENCE + jitter(&mut self.random);
        let before = replace(&mut self.role, Role::Standby { takes_over });
        if let Role::Active(active) | Role::Reading(Some(active)) = before
            && active.is_announced
        {
            actions.push(Action::Role(None));
        }
    }

    fn read(
        &mut self,
        content: Option<Content>,
        now: Instant,
        wall: SystemTime,
        actions: &mut Vec<Action>,
    ) {
        let Role::Reading(active) = &mut self.role else { return };
        let Some(content) = content else {
            actions.push(Action::Read);
            return;
        };
        let epoch = content.lease.as_ref().map(|lease| lease.epoch);
        match active.take() {
            // Only this writer has stored messages since.
            Some(active)
                if content.lease.as_ref().is_some_and(|lease| {
                    lease.epoch == active.epoch && lease.clock == self.clock
                }) =>
            {
                let sequence = content.sequence;
                let mut stored = committed(content);
                let own = active.pending.as_ref().into_iter().chain(&active.committed);
                if let Some(stored) = &mut stored {
                    let is_same = |own: &&Committed| {
                        own.generation == stored.generation && own.parts == stored.parts
                    };
                    stored.snapshot = own.into_iter().find(is_same).and_then(|own| own.snapshot);
                }
                let mut active = Active {
                    sequence,
                    committed: stored,
                    pending: None,
                    next_check: now + CHECK_INTERVAL,
                    waits_since: None,
                    ..active
                };
                active.announce(actions);
                self.role = Role::Active(active);
                self.confirm();
            }
            Some(active) => {
                self.role = Role::Reading(Some(active));
                self.epoch = self.epoch.max(epoch.unwrap_or_default());
                self.stand_by(now, actions);
            }
            None if epoch.is_some() && !self.has_waited => self.stand_by(now, actions),
            None => {
                // A stream that was lost begins with a greater epoch than all before.
                let first = wall.duration_since(SystemTime::UNIX_EPOCH);
                let first = || first.unwrap_or_default().as_secs();
                let next = epoch.map_or_else(first, |epoch| epoch.saturating_add(1));
                let next = next.max(self.epoch.saturating_add(1));
                let writer = self.name.clone();
                let lease = Lease { version: VERSION, epoch: next, writer, clock: self.clock };
                actions.push(Action::Append {
                    after: content.sequence,
                    messages: vec![Stored::Lease(lease.encode())],
                });
                self.role = Role::Claiming(Active {
                    epoch: next,
                    began: now,
                    sequence: content.sequence,
                    committed: committed(content),
                    pending: None,
                    next_commit: now,
                    next_check: now + CHECK_INTERVAL,
                    waits_since: None,
                    awaits_chains: None,
                    is_announced: false,
                    confirmed: None,
                });
            }
        }
    }

    fn appended(&mut self, appended: Appended, now: Instant, actions: &mut Vec<Action>) {
        let takes_over = now + MAX_SILENCE;
        match (replace(&mut self.role, Role::Standby { takes_over }), appended) {
            (Role::Claiming(active), Appended::Stored(sequence)) => {
                self.epoch = active.epoch;
                self.next_alive = now;
                // The state of the writer before is confirmed by no request since.
                self.role = Role::Active(Active { began: now, sequence, ..active });
            }
            (Role::Active(mut active), Appended::Stored(sequence)) => {
                active.sequence = sequence;
                active.waits_since = None;
                if let Some(committed) = active.pending.take() {
                    let names = committed.removed.clone();
                    active.committed = Some(committed);
                    if !names.is_empty() {
                        actions.push(Action::Remove { names, until: sequence });
                    }
                }
                active.announce(actions);
                self.role = Role::Active(active);
                self.confirm();
            }
            // Its own messages that are late conflict with later ones, too.
            (Role::Active(active), Appended::Unknown | Appended::Conflict) => {
                self.role = Role::Reading(Some(active));
                actions.push(Action::Read);
            }
            // A lease that may be stored ends like that of another writer.
            (Role::Claiming(_), Appended::Conflict | Appended::Unknown) => {
                self.stand_by(now, actions);
            }
            (role, _) => self.role = role,
        }
    }

    /// Reads the stream, if it is time.
    fn check(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let takes_over = now + MAX_SILENCE;
        match replace(&mut self.role, Role::Standby { takes_over }) {
            Role::Active(mut active) if active.pending.is_none() && active.next_check <= now => {
                active.waits_since = Some(now);
                self.role = Role::Reading(Some(active));
                actions.push(Action::Read);
            }
            role => self.role = role,
        }
    }

    /// Returns whether the snapshot may differ from the committed one.
    fn has_news(&self, active: &Active, now: Instant) -> bool {
        let Some(observation) = &self.observation else { return false };
        let committed =
            active.committed.as_ref().filter(|own| own.generation.epoch == active.epoch);
        match committed.and_then(|committed| committed.snapshot) {
            Some(snapshot) => snapshot != observation.snapshot.content_generation(),
            // It may be of a response that is older than the last state of the writer before.
            None => {
                active.is_since_it_began(observation.confirmed)
                    && (active.awaits_chains.is_none_or(|until| now >= until)
                        || active.is_since_it_began(observation.chains_confirmed))
            }
        }
    }

    /// Notes that the relayer has confirmed the committed generation.
    fn confirm(&mut self) {
        let Some(observation) = &self.observation else { return };
        let content = observation.snapshot.content_generation();
        if let Role::Active(active) | Role::Reading(Some(active)) = &mut self.role
            && let Some(committed) = &active.committed
            && committed.snapshot == Some(content)
        {
            active.confirmed = active.confirmed.max(observation.confirmed);
        }
    }

    /// Stores the newest snapshot, if it is time.
    fn commit(&mut self, now: Instant, wall: SystemTime, actions: &mut Vec<Action>) {
        let Role::Active(active) = &self.role else { return };
        let is_due =
            active.pending.is_none() && active.next_commit <= now && self.has_news(active, now);
        let (true, Some(observation)) = (is_due, &self.observation) else { return };
        let parts = self.cutter.cut(&observation.snapshot);
        let Role::Active(active) = &mut self.role else { return };
        let content = observation.snapshot.content_generation();
        let before = active.committed.as_ref();
        let is_first = before.is_none_or(|before| before.generation.epoch != active.epoch);
        let stored = before.map(|before| &before.parts);
        if is_first
            && active.awaits_chains.is_none()
            && !active.is_since_it_began(observation.chains_confirmed)
            // A stream that was lost had other ones.
            && stored.map_or(self.has_waited, |stored| !has_chains(&parts, stored))
        {
            active.awaits_chains = Some(now + MAX_WAIT_FOR_CHAINS);
            actions.push(Action::Refresh);
            return;
        }
        let next = Committed {
            generation: FleetGeneration { epoch: active.epoch, number: content.number() },
            snapshot: Some(content),
            parts: parts.iter().map(|(name, part)| (name.clone(), part.digest)).collect(),
            removed: {
                let stored = stored.into_iter().flatten().map(|(name, _)| name);
                stored.filter(|name| !parts.contains_key(name)).cloned().collect()
            },
        };
        let confirmed = observation.confirmed.unwrap_or(now);
        let times = Times {
            changed: observation.snapshot.changed().time,
            scraped: observation.snapshot.telemetry().scraped(),
            confirmed: wall.checked_sub(now - confirmed).unwrap_or(wall),
        };
        let messages = messages(&next, stored, &parts, times);
        actions.push(Action::Append { after: active.sequence, messages });
        active.pending = Some(next);
        active.waits_since = Some(now);
        active.next_commit = now + MIN_INTERVAL;
    }
}

impl Active {
    /// Returns whether a confirmation is of a request of this tenure.
    fn is_since_it_began(&self, confirmed: Option<Instant>) -> bool {
        confirmed.is_some_and(|confirmed| confirmed >= self.began)
    }

    /// Returns whether the server has not answered for too long.
    fn is_cut_off(&self, now: Instant) -> bool {
        self.waits_since.is_some_and(|since| now >= since + MAX_SILENCE)
    }

    /// Announces the role as soon as a generation of this tenure is stored.
    fn announce(&mut self, actions: &mut Vec<Action>) {
        let stored = self.committed.as_ref();
        let is_own = stored.is_some_and(|stored| stored.generation.epoch == self.epoch);
        if is_own && !self.is_announced {
            self.is_announced = true;
            actions.push(Action::Role(Some(self.epoch)));
        }
    }
}

/// Returns whether the versions and chains of a snapshot are the stored ones.
fn has_chains(parts: &Parts, stored: &BTreeMap<PartName, PartDigest>) -> bool {
    let parts = parts.iter().map(|(name, part)| (name, part.digest));
    let stored = stored.iter().map(|(name, digest)| (name, *digest));
    let is_of_chains = |(name, _): &(&PartName, PartDigest)| is_of_chains(name);
    parts.filter(is_of_chains).eq(stored.filter(is_of_chains))
}

/// Returns the messages of a generation in their order: a reader that has its commit has all of
/// its parts, and an index names only parts that are stored.
fn messages(
    next: &Committed,
    stored: Option<&BTreeMap<PartName, PartDigest>>,
    parts: &Parts,
    times: Times,
) -> Vec<Stored> {
    let is_stored = |name: &PartName, digest: PartDigest| {
        stored.is_some_and(|stored| stored.get(name) == Some(&digest))
    };
    let changed: Vec<_> =
        parts.iter().filter(|(name, part)| !is_stored(name, part.digest)).collect();
    let mut messages: Vec<_> = changed
        .iter()
        .map(|(name, part)| Stored::Part((*name).clone(), part.compressed()))
        .collect();
    let index = Index {
        version: VERSION,
        generation: next.generation,
        times,
        parts: next.parts.iter().map(|(name, digest)| (name.clone(), *digest)).collect(),
    };
    let commit = Commit {
        version: VERSION,
        generation: next.generation,
        times,
        changed: changed.iter().map(|(name, part)| ((*name).clone(), part.digest)).collect(),
        removed: next.removed.clone(),
        all: PartDigest::of_all(next.parts.iter().map(|(name, digest)| (name, *digest))),
    };
    messages.push(Stored::Index(index.encode()));
    messages.push(Stored::Commit(commit.encode()));
    messages
}

/// Returns the generation in a stream.
fn committed(content: Content) -> Option<Committed> {
    let Content { index, uncommitted, .. } = content;
    let index = index?;
    let mut parts: BTreeMap<_, _> = index.parts.into_iter().collect();
    for name in &uncommitted {
        parts.remove(name);
    }
    Some(Committed { generation: index.generation, snapshot: None, parts, removed: Vec::new() })
}

fn jitter(random: &mut fastrand::Rng) -> Duration {
    SILENCE_JITTER.mul_f64(random.f64())
}
