//! A reader of a fleet, without its connection: from messages to whole generations.
//!
//! Messages may be lost, repeated and reordered. A generation is installed if the digest of all
//! of its parts is the one in its commit or index; otherwise the missing parts are requested.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, SystemTimeError};

use relayer_rest_state::FleetGeneration;

use crate::age::ClockBound;
use crate::message::{Alive, ClockReading, Commit, Index, Times};
use crate::part::{MAX_PARTS, Part, PartDigest, PartName, Parts};
use crate::writer::MAX_SILENCE;

/// The time after which a reader requests a generation that a sign of life names and that has not
/// arrived: at least this, and up to the range more, so that readers do not send requests at once.
const MIN_PATIENCE: Duration = Duration::from_millis(300);
const PATIENCE_RANGE: Duration = Duration::from_millis(700);

/// The time until a request without a response is repeated.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// The time that a reader waits for a sign of life before it installs its first generation.
const MAX_UNCONFIRMED: Duration = Duration::from_secs(2);

/// The maximum time of a request for the clock, after which another one is sent with the next sign
/// of life, up to a number: each age is larger by the time of the request.
const MAX_SLACK: Duration = Duration::from_millis(250);
const MAX_READINGS: u32 = 5;

/// The maximum size of the parts of a generation, and of parts without a commit, in bytes.
const MAX_SIZE: usize = 256 << 20;

/// The input of a reader.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is connected, and messages since the last connection are lost.
    Connected,
    Part(PartName, Part),
    Commit(Commit),
    Alive(Alive),
    /// The stored index after [`Action::ReadIndex`], or none if there is none.
    Index(Option<Index>),
    /// The stored part after [`Action::ReadParts`], or none if there is none.
    Read(PartName, Option<Part>),
    /// The clock of the writer, and the time of the request.
    Clock(ClockReading, Instant),
}

/// The output of a reader.
#[derive(Debug)]
pub(crate) enum Action {
    ReadIndex,
    ReadParts(Vec<PartName>),
    ReadClock,
    /// Publish this generation.
    Install {
        generation: FleetGeneration,
        times: Times,
        parts: Parts,
    },
}

/// The age of the installed generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// The relayer confirms it.
    Confirmed,
    /// The relayer last confirmed it at this time or later.
    Stale { since: Instant, chains: bool },
}

/// A reader.
#[derive(Debug)]
pub(crate) struct Reader {
    random: fastrand::Rng,
    current: Option<Current>,
    /// The newest parts that are not in the current generation.
    received: HashMap<PartName, Part>,
    received_size: usize,
    resync: Resync,
    /// The newest sign of life.
    alive: Option<Alive>,
    bound: Option<ClockBound>,
    /// The time of a request for the clock without a response.
    clock_requested: Option<Instant>,
    /// The number of readings in a row that took too long.
    readings: u32,
    /// The relayer confirmed the current generation at this time or later.
    confirmed: Option<Instant>,
    /// The time of the last confirmation of the served generation, if the current one was rejected.
    rejected: Option<Instant>,
    /// The relayer confirmed states at this time or later, and the current generation was the
    /// newest one.
    newest_at: Option<Instant>,
    /// Whether a generation was installed.
    has_installed: bool,
}

#[derive(Debug)]
struct Current {
    generation: FleetGeneration,
    times: Times,
    parts: Parts,
    /// The time at which it, or the first one, became current.
    since: Instant,
    /// The time at which the relayer confirmed it, by the wall clocks, which may differ.
    confirmed_by_wall: Instant,
    /// The confirmation of the generation before it.
    confirmed_before: Option<Instant>,
    is_installed: bool,
}

#[derive(Debug)]
enum Resync {
    Idle,
    /// An index is requested at this time.
    Scheduled(Instant),
    /// An index was requested at this time.
    Index(Instant),
    /// Parts of the index were requested at this time.
    Parts {
        index: Index,
        missing: Vec<PartName>,
        requested: Instant,
    },
}

impl Reader {
    pub(crate) fn new(random: fastrand::Rng) -> Self {
        Self {
            random,
            current: None,
            received: HashMap::new(),
            received_size: 0,
            resync: Resync::Idle,
            alive: None,
            bound: None,
            clock_requested: None,
            readings: 0,
            confirmed: None,
            rejected: None,
            newest_at: None,
            has_installed: false,
        }
    }

    /// Returns the time at which [`Self::wake`] is due.
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        let resync = match &self.resync {
            Resync::Idle => None,
            Resync::Scheduled(at) => Some(*at),
            Resync::Index(requested) | Resync::Parts { requested, .. } => {
                Some(*requested + REQUEST_TIME)
            }
        };
        let install = self.current.as_ref().filter(|current| !current.is_installed);
        let install = install.map(|current| current.since + MAX_UNCONFIRMED);
        let silence = self.newest_at.map(|newest_at| newest_at + MAX_SILENCE);
        let silence = silence.filter(|silence| *silence > now);
        let clock = self.clock_requested.map(|requested| requested + REQUEST_TIME);
        let all = [resync, install, silence, clock];
        all.into_iter().flatten().min().unwrap_or(now + MAX_SILENCE)
    }

    /// Returns the age of the generation that is installed; none if none is.
    pub(crate) fn age(&self, now: Instant) -> Option<Age> {
        let current = self.current.as_ref().filter(|current| current.is_installed)?;
        if let Some(since) = self.rejected {
            return Some(Age::Stale { since, chains: true });
        }
        if self.newest_at.is_some_and(|newest_at| now < newest_at + MAX_SILENCE) {
            return Some(Age::Confirmed);
        }
        let alive = self.alive.as_ref();
        let chains = alive.is_none_or(|alive| alive.is_confirming || alive.chains);
        // Before the first sign of life, there are only the wall clocks.
        let since = self.confirmed.unwrap_or(current.confirmed_by_wall);
        Some(Age::Stale { since, chains })
    }

    /// Returns the time since which the telemetry is stale, if it is.
    pub(crate) fn telemetry_stale(&self, now: Instant) -> Option<Instant> {
        let stale = match self.age(now) {
            Some(Age::Stale { since, .. }) => Some(since),
            _ => None,
        };
        // The telemetry may be stale although the state is not.
        let own = self.alive.as_ref().and_then(|alive| {
            let bound = self.bound.filter(|bound| bound.is_usable(alive.clock, now))?;
            bound.earliest(alive.telemetry_stale?, now)
        });
        own.or(stale)
    }

    /// Notes that the current generation cannot be served, and that the one before it still is.
    pub(crate) fn reject(&mut self, now: Instant) {
        let before = self.current.as_ref().and_then(|current| current.confirmed_before);
        self.rejected = self.rejected.or(before).or(Some(now));
    }

    /// Notes that the current generation is served.
    pub(crate) fn accept(&mut self) {
        self.rejected = None;
    }

    /// Carries out the actions that are due.
    pub(crate) fn wake(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let is_over = |requested: Instant| now >= requested + REQUEST_TIME;
        match &self.resync {
            Resync::Scheduled(at) if *at <= now => self.request_index(now, &mut actions),
            Resync::Index(requested) | Resync::Parts { requested, .. } if is_over(*requested) => {
                self.request_index(now, &mut actions);
            }
            _ => {}
        }
        if self.clock_requested.is_some_and(is_over) {
            self.clock_requested = None;
            self.confirm(now, false, &mut actions);
        }
        self.install(now, &mut actions);
        actions
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, event: Event, now: Instant, wall: SystemTime) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Connected => self.request_index(now, &mut actions),
            Event::Part(name, part) => self.receive(name, part),
            Event::Commit(commit) => self.commit(&commit, now, wall, &mut actions),
            Event::Alive(alive) => self.alive(alive, now, &mut actions),
            Event::Index(index) => self.index(index, now, wall, &mut actions),
            Event::Read(name, part) => self.read(name, part, now, wall, &mut actions),
            Event::Clock(reading, requested) => {
                let alive = self.alive.as_ref();
                if alive.is_none_or(|alive| alive.clock != reading.clock) {
                    // Of a process that is not the writer any more.
                    return actions;
                }
                self.clock_requested = None;
                let bound = ClockBound::new(reading, requested, now);
                self.bound = Some(bound.better(self.bound, now));
                self.readings = if bound.slack() > MAX_SLACK { self.readings + 1 } else { 0 };
                self.confirm(now, false, &mut actions);
            }
        }
        self.install(now, &mut actions);
        actions
    }

    /// Returns whether its age is known from the writer's clock.
    #[cfg(test)]
    pub(crate) fn has_confirmation(&self) -> bool {
        self.confirmed.is_some()
    }

    fn is_newer(&self, generation: FleetGeneration) -> bool {
        self.current.as_ref().is_none_or(|current| current.generation < generation)
    }

    fn receive(&mut self, name: PartName, part: Part) {
        let size = part.content.len();
        let is_full = self.received_size + size > MAX_SIZE || self.received.len() >= MAX_PARTS;
        if is_full {
            // They belong to no generation that was committed.
            self.received.clear();
            self.received_size = 0;
        }
        self.received_size += size;
        if let Some(before) = self.received.insert(name, part) {
            self.received_size -= before.content.len();
        }
    }

    /// Returns a part that was received or is current.
    fn find(&self, name: &PartName, digest: PartDigest) -> Option<&Part> {
        let current = self.current.as_ref().and_then(|current| current.parts.get(name));
        [self.received.get(name), current].into_iter().flatten().find(|part| part.digest == digest)
    }

    fn commit(
        &mut self,
        commit: &Commit,
        now: Instant,
        wall: SystemTime,
        actions: &mut Vec<Action>,
    ) {
        if !self.is_newer(commit.generation) {
            return;
        }
        let current = self.current.as_ref().map(|current| &current.parts);
        let mut parts = current.cloned().unwrap_or_default();
        for name in &commit.removed {
            parts.remove(name);
        }
        let mut is_complete = true;
        for (name, digest) in &commit.changed {
            match self.find(name, *digest) {
                Some(part) => {
                    parts.insert(name.clone(), part.clone());
                }
                None => is_complete = false,
            }
        }
        let digests = parts.iter().map(|(name, part)| (name, part.digest));
        if is_complete && size(&parts) <= MAX_SIZE && PartDigest::of_all(digests) == commit.all {
            self.set_current(commit.generation, commit.times, parts, now, wall);
            self.confirm(now, false, actions);
        } else if matches!(self.resync, Resync::Idle | Resync::Scheduled(_)) {
            // All readers may have lost the same message, and the next commit may come first.
            self.schedule(now);
        }
    }

    fn schedule(&mut self, now: Instant) {
        let patience = MIN_PATIENCE + PATIENCE_RANGE.mul_f64(self.random.f64());
        if matches!(self.resync, Resync::Idle) {
            self.resync = Resync::Scheduled(now + patience);
        }
    }

    fn request_index(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.resync = Resync::Index(now);
        actions.push(Action::ReadIndex);
    }

    fn index(
        &mut self,
        index: Option<Index>,
        now: Instant,
        wall: SystemTime,
        actions: &mut Vec<Action>,
    ) {
        if !matches!(self.resync, Resync::Index(_)) {
            return;
        }
        self.resync = Resync::Idle;
        let Some(index) = index else { return };
        if !self.is_newer(index.generation) {
            return;
        }
        let is_missing =
            |(name, digest): &&(PartName, PartDigest)| self.find(name, *digest).is_none();
        let missing: Vec<_> =
            index.parts.iter().filter(is_missing).map(|(name, _)| name.clone()).collect();
        if !missing.is_empty() {
            actions.push(Action::ReadParts(missing.clone()));
        }
        self.resync = Resync::Parts { index, missing, requested: now };
        self.complete(now, wall, actions);
    }

    fn read(
        &mut self,
        name: PartName,
        part: Option<Part>,
        now: Instant,
        wall: SystemTime,
        actions: &mut Vec<Action>,
    ) {
        let Resync::Parts { missing, .. } = &mut self.resync else { return };
        missing.retain(|other| *other != name);
        if let Some(part) = part {
            self.receive(name, part);
        }
        self.complete(now, wall, actions);
    }

    /// Makes the index current if all of its parts have been read.
    fn complete(&mut self, now: Instant, wall: SystemTime, actions: &mut Vec<Action>) {
        let Resync::Parts { index, missing, .. } = &self.resync else { return };
        if !missing.is_empty() {
            return;
        }
        let parts: Option<Parts> = index
            .parts
            .iter()
            .map(|(name, digest)| Some((name.clone(), self.find(name, *digest)?.clone())))
            .collect();
        let (generation, times) = (index.generation, index.times);
        self.resync = Resync::Idle;
        match parts {
            Some(parts) if self.is_newer(generation) && size(&parts) <= MAX_SIZE => {
                self.set_current(generation, times, parts, now, wall);
                self.confirm(now, false, actions);
            }
            Some(_) => {}
            // A newer generation has replaced some of them.
            None => self.schedule(now),
        }
    }

    fn set_current(
        &mut self,
        generation: FleetGeneration,
        times: Times,
        parts: Parts,
        now: Instant,
        wall: SystemTime,
    ) {
        // Parts of later generations stay, and those of this one and former ones do not.
        self.received.retain(|name, part| {
            parts.get(name).is_none_or(|current| current.digest != part.digest)
        });
        self.received_size = self.received.values().map(|part| part.content.len()).sum();
        let before = self.current.as_ref().filter(|before| !before.is_installed);
        self.current = Some(Current {
            since: before.map_or(now, |before| before.since),
            confirmed_by_wall: earlier(now, wall.duration_since(times.confirmed)),
            confirmed_before: self.confirmed,
            generation,
            times,
            parts,
            is_installed: false,
        });
        let newest = self.alive.as_ref().and_then(|alive| alive.generation);
        let is_newest = newest.is_none_or(|newest| newest <= generation);
        if is_newest && matches!(self.resync, Resync::Scheduled(_)) {
            self.resync = Resync::Idle;
        }
    }

    fn alive(&mut self, alive: Alive, now: Instant, actions: &mut Vec<Action>) {
        let newest = self.alive.as_ref().map(|before| before.epoch);
        let current = self.current.as_ref().map(|current| current.generation.epoch);
        let is_old = newest.max(current).is_some_and(|epoch| alive.epoch < epoch);
        let is_late = self
            .alive
            .as_ref()
            .is_some_and(|before| before.clock == alive.clock && before.time > alive.time);
        if is_old || is_late {
            return;
        }
        let bound = self.bound.filter(|bound| bound.is_usable(alive.clock, now));
        if bound.is_some_and(|bound| bound.latest(now) < alive.time) {
            // This machine or the other one was suspended.
            self.bound = None;
        }
        if let Some(generation) = alive.generation
            && self.is_newer(generation)
        {
            self.schedule(now);
        }
        self.alive = Some(alive);
        self.confirm(now, true, actions);
    }

    /// Notes that the relayer has confirmed the current generation.
    fn confirm(&mut self, now: Instant, is_new: bool, actions: &mut Vec<Action>) {
        let Some(alive) = &self.alive else { return };
        match &self.bound {
            Some(bound) if bound.is_usable(alive.clock, now) => {
                let is_poor = bound.slack() > MAX_SLACK && self.readings < MAX_READINGS;
                if is_poor && self.clock_requested.is_none() && is_new {
                    self.clock_requested = Some(now);
                    actions.push(Action::ReadClock);
                }
                let generation = self.current.as_ref().map(|current| current.generation);
                if alive.generation.is_some() && alive.generation <= generation {
                    let sent = bound.earliest(alive.time, now);
                    self.newest_at = self.newest_at.max(sent).filter(|_| alive.is_confirming);
                    let confirmed = alive.confirmed.and_then(|time| bound.earliest(time, now));
                    self.confirmed = self.confirmed.max(confirmed);
                }
            }
            _ if self.clock_requested.is_none() => {
                self.readings = 0;
                self.clock_requested = Some(now);
                actions.push(Action::ReadClock);
            }
            _ => {}
        }
    }

    /// Installs the current generation as soon as its age is known, or cannot be in time.
    fn install(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let is_known = self.confirmed.is_some() || self.has_installed;
        if let Some(current) = &mut self.current
            && !current.is_installed
            && (is_known || now >= current.since + MAX_UNCONFIRMED)
        {
            current.is_installed = true;
            self.has_installed = true;
            let Current { generation, times, parts, .. } = &*current;
            let (generation, times, parts) = (*generation, *times, parts.clone());
            actions.push(Action::Install { generation, times, parts });
        }
    }
}

/// Returns the time before this one by an age; the earliest one that the clock has if that is too
/// early for it.
fn earlier(now: Instant, age: Result<Duration, SystemTimeError>) -> Instant {
    let age = age.unwrap_or_default();
    let halves = (0..32).map(|times| age / (1 << times));
    halves.into_iter().find_map(|age| now.checked_sub(age)).unwrap_or(now)
}

/// Returns the size of parts, in bytes.
fn size(parts: &Parts) -> usize {
    parts.values().map(|part| part.content.len()).sum()
}
