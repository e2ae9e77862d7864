//! The entries, by key and by the values that their responses read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::backoff::Backoff;
use relayer_rest_sandbox::{GuestRequest, StateValue};
use relayer_rest_state::{Generation, Snapshot};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Refusal;
use super::broadcast::{Broadcast, Subscriber};
use super::client::Client;
use super::client_threads::ClientThreads;
use super::content::Content;
use super::due::{DueEntries, EntryId};
use super::key::Key;
use super::limits::LiveLimits;
use super::own_run::OwnResponse;
use super::recent_runs::{RecentRuns, RunKey, RunNumber};
use super::resolve::Answer;
use super::run_budget::RunBudget;
use super::tally::{CountedBytes, LiveTally};
use super::version::{Body, Version};
use crate::cache::RecordedResponse;
use crate::http::connections::Peer;
use crate::http::error::HostError;
use crate::registry::{Mount, MountPath, Registry};

/// The first and the longest wait before a request is repeated that failed, or whose response needs
/// memory.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// The entries.
pub(super) struct Entries {
    limits: LiveLimits,
    tally: LiveTally,
    by_key: HashMap<Key, EntryId>,
    by_id: HashMap<EntryId, Entry>,
    /// The entries whose responses were derived from a value.
    readers: HashMap<StateValue, HashSet<EntryId>>,
    due: DueEntries,
    budget: RunBudget,
    /// When the next due entry may be run: otherwise, clients that wait for the budget could take each
    /// run of it.
    reserved: Option<Instant>,
    recent_runs: RecentRuns,
    threads: ClientThreads,
    by_peer: HashMap<Peer, u32>,
    by_mount: HashMap<MountPath, u32>,
    waiters: usize,
    next: EntryId,
    /// The number of the next version: no two entries have equal ones.
    next_version: u64,
    /// The snapshot up to which changes were noticed.
    seen: Arc<Snapshot>,
    /// The moment until which all waits end, if they do.
    ending: Option<Instant>,
}

/// A response that clients wait for.
struct Entry {
    /// The key; `None` if its waiters look for other entries.
    key: Option<Key>,
    request: Arc<GuestRequest>,
    mount: MountPath,
    answer: Answer,
    /// The newest generation of the responses so far.
    newest: Option<Generation>,
    values: Vec<StateValue>,
    versions: Broadcast,
    waiters: usize,
    evaluation: Evaluation,
    /// The time of the start of the last run.
    last_run: Option<Instant>,
    backoff: Backoff,
    /// The memory of its request, and of the parts of that in the key.
    _counted: CountedBytes,
}

/// Whether the response of an entry must be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evaluation {
    /// The response is current.
    Current,
    Due(Instant),
    Running(Run),
}

/// An evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Whether values have changed since it began.
    is_outdated: bool,
    /// The newest generation of the responses before it.
    newest: Option<Generation>,
}

/// A waiter that was added to an entry.
pub(super) struct Added {
    pub(super) id: EntryId,
    pub(super) versions: Subscriber,
    /// The memory of its request.
    _counted: CountedBytes,
}

/// Why a waiter was not added.
pub(super) enum NotAdded {
    Refused(Refusal),
    /// The answer is of a module that is not active any more.
    Outdated,
}

/// An entry to evaluate.
pub(super) struct Task {
    id: EntryId,
    pub(super) request: Arc<GuestRequest>,
    _permit: OwnedSemaphorePermit,
}

impl Entries {
    pub(super) fn new(limits: LiveLimits, tally: LiveTally, seen: Arc<Snapshot>) -> Self {
        let budget = RunBudget::new(limits.runs_per_second);
        let memory = limits.memory.as_u64() / 4;
        let recent_runs = RecentRuns::new(limits.min_interval, limits.entries, memory);
        Self {
            limits,
            tally,
            by_key: HashMap::new(),
            by_id: HashMap::new(),
            readers: HashMap::new(),
            due: DueEntries::default(),
            budget,
            reserved: None,
            recent_runs,
            threads: ClientThreads::default(),
            by_peer: HashMap::new(),
            by_mount: HashMap::new(),
            waiters: 0,
            next: 0,
            next_version: 0,
            seen,
            ending: None,
        }
    }

    /// Adds a waiter for the next version of this answer, which must be of the active module:
    /// the version that the client is sent first is never older.
    pub(super) fn add(
        &mut self,
        client: &Client,
        request: &Arc<GuestRequest>,
        answer: Answer,
        registry: &Registry,
    ) -> Result<Added, NotAdded> {
        if let Some(end) = self.ending {
            return Err(NotAdded::Refused(Refusal::Ending(end)));
        }
        if !answer.is_current(registry, request.target.path()) {
            return Err(NotAdded::Outdated);
        }
        if answer.has_commands() {
            // Only a request of its own executes them.
            return Err(NotAdded::Refused(Refusal::Ending(Instant::now())));
        }
        let key = Key::new(request, &answer);
        let mount = answer.mount.path().clone();
        let id = self.by_key.get(&key).copied();
        let counted = self.tally.count(client.size(), self.limits.memory.as_u64());
        let Some(counted) = counted.filter(|_| self.has_room(client.peer, &mount, id.is_none()))
        else {
            self.tally.refused();
            return Err(NotAdded::Refused(Refusal::Overloaded));
        };
        let id = match id {
            Some(id) => {
                self.offer(id, answer, registry);
                id
            }
            None => self.insert(key, request, answer, client.size())?,
        };
        Ok(self.join(id, client, mount, counted))
    }

    fn has_room(&self, peer: Peer, mount: &MountPath, is_new: bool) -> bool {
        let of_peer = self.by_peer.get(&peer).copied().unwrap_or_default();
        let of_mount = self.by_mount.get(mount).copied().unwrap_or_default();
        self.waiters < self.limits.waiters as usize
            && (!peer.has_address() || of_peer < self.limits.waiters_per_peer)
            && of_mount < self.limits.waiters_per_mount
            && (!is_new || self.by_id.len() < self.limits.entries as usize)
    }

    /// Adds a waiter for the next version of a failure, if an entry has one for this request. The
    /// module need not be run for each waiter then.
    ///
    /// # Errors
    /// Returns an error at a limit.
    pub(super) fn join_failure(
        &mut self,
        client: &Client,
        request: &Arc<GuestRequest>,
        registry: &Registry,
    ) -> Result<Option<Added>, Refusal> {
        let id = self.failure(request, registry).filter(|_| self.ending.is_none());
        let Some(id) = id else { return Ok(None) };
        let mount = self.by_id[&id].mount.clone();
        let counted = self.tally.count(client.size(), self.limits.memory.as_u64());
        let Some(counted) = counted.filter(|_| self.has_room(client.peer, &mount, false)) else {
            self.tally.refused();
            return Err(Refusal::Overloaded);
        };
        Ok(Some(self.join(id, client, mount, counted)))
    }

    /// Returns whether an entry has a failure of the active module for this request.
    pub(super) fn has_failure(&self, request: &GuestRequest, registry: &Registry) -> bool {
        self.failure(request, registry).is_some()
    }

    fn failure(&self, request: &GuestRequest, registry: &Registry) -> Option<EntryId> {
        let mounts = registry.now();
        let key = Key::of_failure(request, mounts.route(request.target.path()).path());
        let id = *self.by_key.get(&key)?;
        let entry = &self.by_id[&id];
        entry.answer.is_current(registry, entry.path()).then_some(id)
    }

    /// Returns how a client gets a response of its own that is not cached, whose request came when
    /// this generation was the newest one.
    pub(super) fn own_response(
        &mut self,
        request: &GuestRequest,
        since: Generation,
        registry: &Registry,
    ) -> OwnResponse<RunKey> {
        let mounts = registry.now();
        let key = self.recent_runs.key(request, mounts.route(request.target.path()).path());
        let Some(next) = self.recent_runs.next(key, Instant::now()) else {
            return OwnResponse::Run(key);
        };
        let answer = self.recent_runs.answer(key, since);
        match answer.filter(|answer| answer.is_current(registry, request.target.path())) {
            Some(answer) => OwnResponse::Answered(answer.clone()),
            None => OwnResponse::Later(next),
        }
    }

    /// Records a run for a response of its own that begins.
    pub(super) fn begin_run(&mut self, key: RunKey) -> RunNumber {
        self.recent_runs.begin(key, Instant::now())
    }

    /// Records the end of a run, whose answer equal requests share if it is of the active module.
    pub(super) fn end_run(
        &mut self,
        key: RunKey,
        number: RunNumber,
        answer: &Answer,
        path: &str,
        registry: &Registry,
    ) {
        let now = Instant::now();
        if answer.is_current(registry, path) {
            self.recent_runs.end(key, number, answer, now);
        } else {
            self.recent_runs.cancel(key, number, now);
        }
    }

    /// Records that a run has no answer.
    pub(super) fn abort_run(&mut self, key: RunKey, number: RunNumber) {
        self.recent_runs.abort(key, number, Instant::now());
    }

    /// Returns the permits of the evaluations of a mount.
    pub(super) fn permits(&mut self, mount: &Mount) -> Arc<Semaphore> {
        self.due.permits(mount)
    }

    /// Returns the turns of the clients of a mount that look for a response of their own.
    pub(super) fn turns(&mut self, mount: &Mount) -> Arc<Semaphore> {
        self.due.turns(mount)
    }

    /// Lets the clients of the caller's thread wait although there is a newer version.
    #[cfg(test)]
    pub(super) fn delay_wakeups(&mut self) {
        self.threads.current().delay();
    }

    /// Adds a waiter to an entry.
    fn join(
        &mut self,
        id: EntryId,
        client: &Client,
        mount: MountPath,
        counted: CountedBytes,
    ) -> Added {
        let entry = self.by_id.get_mut(&id).expect("it was found or inserted");
        entry.waiters += 1;
        let versions = entry.versions.subscribe(self.threads.current());
        self.waiters += 1;
        *self.by_peer.entry(client.peer).or_default() += 1;
        *self.by_mount.entry(mount).or_default() += 1;
        self.tally.set(self.waiters, self.by_id.len());
        Added { id, versions, _counted: counted }
    }

    /// Removes a waiter, and its entry with the last one.
    pub(super) fn remove(&mut self, id: EntryId, client: &Client) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        entry.waiters -= 1;
        let mount = entry.mount.clone();
        let is_last = entry.waiters == 0;
        self.waiters -= 1;
        decrement(&mut self.by_peer, &client.peer);
        decrement(&mut self.by_mount, &mount);
        if is_last {
            self.retire(id);
            self.by_id.remove(&id);
        }
        self.tally.set(self.waiters, self.by_id.len());
    }

    /// Notices the changes up to this snapshot.
    pub(super) fn observe(&mut self, now: &Arc<Snapshot>) {
        if now.generation() <= self.seen.generation() {
            return;
        }
        let before = std::mem::replace(&mut self.seen, Arc::clone(now));
        for id in self.readers_of_changes(&before) {
            if self.by_id.get(&id).is_some_and(|entry| !entry.is_valid_for(now)) {
                self.schedule(id, Duration::ZERO);
            }
        }
        let is_staleness =
            before.stale() != now.stale() || before.telemetry().stale() != now.telemetry().stale();
        if is_staleness {
            for entry in self.by_id.values_mut() {
                let body = Arc::clone(&entry.versions.newest().body);
                self.tally.woke(entry.publish(body, now));
            }
        }
    }

    /// Returns the entries whose answers read a value that has changed since this snapshot.
    fn readers_of_changes(&self, before: &Snapshot) -> HashSet<EntryId> {
        let changed = self.readers.iter().filter(|(value, _)| value.differs(before, &self.seen));
        changed.flat_map(|(_, ids)| ids).copied().collect()
    }

    /// Notices that other modules may be active.
    pub(super) fn activated(&mut self, registry: &Registry) {
        self.recent_runs.forget_ended();
        let is_other = |entry: &Entry| !entry.answer.is_current(registry, entry.path());
        let outdated = self.by_id.iter().filter(|(_, entry)| is_other(entry));
        for id in outdated.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.schedule(id, Duration::ZERO);
        }
    }

    /// Takes the entries that are due now and whose mounts may begin evaluations. Each task must
    /// be completed.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Task> {
        let mut tasks = Vec::new();
        while let Some((time, id)) = self.due.first()
            && time <= now
            && let Some(entry) = self.by_id.get_mut(&id)
            && *self.reserved.get_or_insert_with(|| self.budget.reserve(now)) <= now
        {
            let Some(permit) = self.due.begin(&entry.mount, time, id) else { break };
            self.reserved = None;
            entry.evaluation =
                Evaluation::Running(Run { is_outdated: false, newest: entry.newest });
            entry.last_run = Some(now);
            tasks.push(Task { id, request: Arc::clone(&entry.request), _permit: permit });
        }
        let is_due = self.due.first().is_some_and(|(time, _)| time <= now);
        if !is_due && self.reserved.take().is_some() {
            self.budget.give_back();
        }
        self.due.prune();
        tasks
    }

    /// Counts a run of a module.
    pub(super) fn ran(&self) {
        self.tally.ran();
    }

    /// Takes the next run out of the budget, and returns when it may begin.
    pub(super) fn reserve_run(&mut self, now: Instant) -> Instant {
        self.budget.reserve(now)
    }

    /// Counts a request that is refused.
    pub(super) fn refuse(&self) {
        self.tally.refused();
    }

    /// Gives a run back that was not needed.
    pub(super) fn give_back_run(&mut self) {
        self.budget.give_back();
    }

    /// Returns when the next entry can be taken: it is due, and the budget has a run for it.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let budget = self.reserved.unwrap_or_else(|| self.budget.next(now));
        self.due.first().map(|(time, _)| budget.max(time))
    }

    /// Returns when answers that equal requests share can be forgotten.
    pub(super) fn next_forgotten(&self) -> Option<Instant> {
        self.recent_runs.next_end()
    }

    /// Forgets the answers that equal requests share no longer.
    pub(super) fn forget_runs(&mut self) {
        self.recent_runs.forget(Instant::now());
    }

    /// Records the answer to a task, and whether the module was run for it.
    pub(super) fn complete(
        &mut self,
        task: Task,
        answer: Answer,
        was_run: bool,
        registry: &Registry,
    ) {
        let Task { id, request, .. } = task;
        if was_run {
            self.tally.ran();
            if answer.is_current(registry, request.target.path()) {
                let key = self.recent_runs.key(&request, answer.mount.path());
                self.recent_runs.record(key, &answer, Instant::now());
            }
        } else {
            self.budget.give_back();
        }
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        let Evaluation::Running(run) = entry.evaluation else { return };
        entry.evaluation = Evaluation::Current;
        if !answer.is_current(registry, entry.path()) {
            return self.schedule(id, Duration::ZERO);
        }
        let is_error = answer.outcome.is_err();
        // The state of a failure is not known: clients have the newer response of another request.
        let is_older = is_error && run.newest < entry.newest;
        let retry = if is_error { Some(entry.backoff.next_delay()) } else { None };
        if !is_error {
            entry.backoff = backoff();
        }
        let is_changed = !is_older && self.offer(id, answer, registry);
        if was_run && !is_changed {
            self.tally.ran_without_change();
        }
        let Some(entry) = self.by_id.get(&id) else { return };
        let is_valid = entry.is_valid_for(&self.seen);
        if !is_valid && (run.is_outdated || is_older || !is_error) {
            self.schedule(id, Duration::ZERO);
        } else if let Some(retry) = retry.filter(|_| !is_older) {
            self.schedule(id, retry);
        } else if !entry.shows_answer() {
            // There was too little memory.
            self.schedule(id, MIN_RETRY);
        }
    }

    /// Ends all waits until this moment.
    pub(super) fn end(&mut self, end: Instant) {
        let end = *self.ending.get_or_insert(end);
        self.recent_runs.notify_all();
        for id in self.by_id.keys().copied().collect::<Vec<_>>() {
            self.retire(id);
            self.publish(id, Content::Ended(end));
        }
    }

    /// Returns the moment until which all waits end, if they do.
    pub(super) fn ending(&self) -> Option<Instant> {
        self.ending
    }

    fn insert(
        &mut self,
        key: Key,
        request: &Arc<GuestRequest>,
        answer: Answer,
        request_size: usize,
    ) -> Result<EntryId, NotAdded> {
        let content = content(&answer, request);
        let limit = self.limits.memory.as_u64();
        let of_request = self.tally.count(2 * request_size, limit);
        let counted = self.tally.count(Body::max_size(&content), limit);
        let (Some(of_request), Some(counted)) = (of_request, counted) else {
            self.tally.refused();
            return Err(NotAdded::Refused(Refusal::Overloaded));
        };
        let body = Body::new(self.next_version, content, Vec::new(), Some(counted));
        self.next_version += 1;
        let stale_since = match &answer.outcome {
            Ok(response) => response.reads().stale_since(&self.seen),
            Err(_) => None,
        };
        let id = self.next;
        self.next += 1;
        let is_of_before = answer.is_failure && answer.asked_at < self.seen.generation();
        let is_error = answer.outcome.is_err() && !is_of_before;
        let run_key = self.recent_runs.key(request, answer.mount.path());
        let last_run = self.recent_runs.last(run_key, Instant::now());
        let newest = answer.outcome.as_ref().ok().map(|response| response.generation());
        let entry = Entry {
            key: Some(key.clone()),
            newest,
            request: Arc::clone(request),
            mount: answer.mount.path().clone(),
            values: Vec::new(),
            answer,
            versions: Broadcast::new(Arc::new(Version { body, stale_since })),
            waiters: 0,
            evaluation: Evaluation::Current,
            last_run,
            backoff: backoff(),
            _counted: of_request,
        };
        let is_outdated = !entry.is_valid_for(&self.seen);
        self.by_key.insert(key, id);
        self.by_id.insert(id, entry);
        self.index(id);
        if is_error {
            self.schedule(id, MIN_RETRY);
        } else if is_outdated {
            self.schedule(id, Duration::ZERO);
        }
        Ok(id)
    }

    /// Publishes an answer of the active module as the next version, if it is newer than the
    /// present one and clients can tell the two apart. Returns whether it was published.
    fn offer(&mut self, id: EntryId, answer: Answer, registry: &Registry) -> bool {
        let Some(entry) = self.by_id.get_mut(&id) else { return false };
        if let Ok(now) = &answer.outcome {
            // A run that began before may end after others: a module that fails on probation is
            // replaced, and the one before responds to its request. A value can also return to an
            // earlier one, so that an older response is the present one.
            let generation = Some(now.generation());
            if generation < entry.newest {
                let is_current = entry.answer.is_current(registry, entry.path())
                    && entry.is_valid_for(&self.seen);
                if is_current {
                    return false;
                }
                if !is_valid(now, &entry.request, &self.seen) {
                    self.schedule(id, Duration::ZERO);
                    return false;
                }
            }
            entry.newest = entry.newest.max(generation);
        }
        if answer.mount.path() != &entry.mount {
            // Its clients count for the mount before.
            self.retire(id);
            self.publish(id, Content::Moved);
            return true;
        }
        // An error of the host says nothing about the reads, and is the response to all requests.
        let key = (answer.outcome.is_ok() || answer.is_failure)
            .then(|| Key::new(&entry.request, &answer))
            .filter(|key| entry.key.as_ref() != Some(key));
        if let Some(key) = key {
            // The module may fail for some requests of the entry only. Requests that are equal as a
            // whole stay, and share its evaluation.
            if answer.outcome.is_ok() || self.by_key.contains_key(&key) {
                self.retire(id);
                self.publish(id, Content::Moved);
                return true;
            }
            let before = entry.key.replace(key.clone());
            before.map(|before| self.by_key.remove(&before));
            self.by_key.insert(key, id);
        }
        let Some(entry) = self.by_id.get_mut(&id) else { return false };
        let content = content(&answer, &entry.request);
        entry.answer = answer;
        if entry.answer.has_commands() {
            self.retire(id);
            self.publish(id, Content::Ended(Instant::now()));
            return true;
        }
        self.index(id);
        let entry = &self.by_id[&id];
        // An error is repeated after a time.
        if entry.answer.outcome.is_ok() && !entry.is_valid_for(&self.seen) {
            self.schedule(id, Duration::ZERO);
        }
        let is_other = !self.by_id[&id].versions.newest().body.content.is_same(&content);
        if is_other {
            self.publish(id, content);
        } else if let Some(entry) = self.by_id.get_mut(&id) {
            // It may have read other values, and so be stale.
            let body = Arc::clone(&entry.versions.newest().body);
            self.tally.woke(entry.publish(body, &self.seen));
        }
        is_other
    }

    /// Publishes a new version of an entry.
    fn publish(&mut self, id: EntryId, content: Content) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        let before = Arc::clone(&entry.versions.newest().body);
        let history = before.history();
        let own = Body::max_size(&content);
        let bytes = own + history.iter().map(|(_, before)| before.len()).sum::<usize>();
        let limit = self.limits.memory.as_u64();
        let number = self.next_version;
        self.next_version += 1;
        let mut is_without_memory = false;
        // These need no memory: clients leave the entry, which is not evaluated again.
        let is_last = matches!(content, Content::Moved | Content::Ended(_));
        let body = if is_last {
            Body::new(number, content, Vec::new(), None)
        } else if let Some(counted) = self.tally.count(bytes, limit) {
            Body::new(number, content, history, Some(counted))
        } else if let Some(counted) = self.tally.count(own, limit) {
            // The versions before it are the first to go.
            Body::new(number, content, Vec::new(), Some(counted))
        } else {
            // It is tried again when there may be memory.
            is_without_memory = true;
            let error = Content::Error(Arc::new(HostError::Overloaded.response()));
            if error.is_same(&before.content) {
                before
            } else {
                Body::new(number, error, Vec::new(), None)
            }
        };
        self.tally.woke(entry.publish(body, &self.seen));
        if is_without_memory {
            self.schedule(id, MIN_RETRY);
        }
    }

    /// Updates the values that an entry was derived from.
    fn index(&mut self, id: EntryId) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        let values = match &entry.answer.outcome {
            Ok(response) => response.reads().state_values(),
            // The reads of a failed run are not known. An error of the host has none.
            Err(_) if entry.answer.is_failure || entry.values.is_empty() => vec![StateValue::Any],
            Err(_) => return,
        };
        if values == entry.values {
            return;
        }
        let before = std::mem::replace(&mut entry.values, values.clone());
        self.unindex(id, &before);
        for value in values {
            self.readers.entry(value).or_default().insert(id);
        }
    }

    fn unindex(&mut self, id: EntryId, values: &[StateValue]) {
        for value in values {
            if let Some(readers) = self.readers.get_mut(value) {
                readers.remove(&id);
                if readers.is_empty() {
                    self.readers.remove(value);
                }
            }
        }
    }

    /// Ends the evaluation of an entry, which gets no new waiters.
    fn retire(&mut self, id: EntryId) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        if let Some(key) = entry.key.take() {
            self.by_key.remove(&key);
        }
        if let Evaluation::Due(time) = entry.evaluation {
            self.due.remove(&entry.mount, time, id);
        }
        entry.evaluation = Evaluation::Current;
        let values = std::mem::take(&mut entry.values);
        self.unindex(id, &values);
    }

    /// Schedules the evaluation of an entry after this time at the earliest.
    fn schedule(&mut self, id: EntryId, after: Duration) {
        let Some(entry) = self.by_id.get_mut(&id).filter(|entry| entry.key.is_some()) else {
            return;
        };
        let now = Instant::now();
        let earliest = entry.last_run.map_or(now, |last| last + self.limits.min_interval);
        let time = earliest.max(now + after);
        match &mut entry.evaluation {
            Evaluation::Running(run) => run.is_outdated = true,
            Evaluation::Due(before) if *before <= time => {}
            evaluation => {
                if let Evaluation::Due(before) = *evaluation {
                    self.due.remove(&entry.mount, before, id);
                }
                *evaluation = Evaluation::Due(time);
                self.due.insert(&entry.answer.mount, time, id);
            }
        }
    }
}

impl Entry {
    /// Returns the path of its request.
    fn path(&self) -> &str {
        self.request.target.path()
    }

    /// Returns whether its response would be the same on this snapshot.
    fn is_valid_for(&self, snapshot: &Snapshot) -> bool {
        let outcome = self.answer.outcome.as_ref();
        outcome.is_ok_and(|response| is_valid(response, &self.request, snapshot))
    }

    /// Returns whether clients have the content of the last answer.
    fn shows_answer(&self) -> bool {
        let shown = self.versions.newest();
        self.key.is_none() || shown.body.content.is_same(&content(&self.answer, &self.request))
    }

    /// Returns the time since which no source has confirmed the values of the last answer.
    fn stale_since(&self, shown: &Content, snapshot: &Snapshot) -> Option<std::time::Instant> {
        match (shown, &self.answer.outcome) {
            (Content::Response(_), Ok(response)) => response.reads().stale_since(snapshot),
            _ => None,
        }
    }

    /// Publishes a version with this body, and returns the number of waiters that it wakes.
    fn publish(&mut self, body: Arc<Body>, snapshot: &Snapshot) -> usize {
        let stale_since = self.stale_since(&body.content, snapshot);
        let before = self.versions.newest();
        if Arc::ptr_eq(&before.body, &body) && before.stale_since == stale_since {
            return 0;
        }
        self.versions.publish(Arc::new(Version { body, stale_since }));
        self.waiters
    }
}

/// Returns whether a response to a request would be the same on this snapshot.
pub(super) fn is_valid(
    response: &RecordedResponse,
    request: &GuestRequest,
    snapshot: &Snapshot,
) -> bool {
    let reads = response.reads();
    // The values that are not in the record may differ after any publication.
    if reads.is_complete() {
        reads.is_valid_for(snapshot, request.target.query(), &request.headers)
    } else {
        response.generation() >= snapshot.generation()
    }
}

fn backoff() -> Backoff {
    Backoff::new(MIN_RETRY, MAX_RETRY)
}

fn content(answer: &Answer, request: &GuestRequest) -> Content {
    match &answer.outcome {
        Ok(response) => Content::Response(Arc::clone(response)),
        Err(response) if answer.is_failure => {
            Content::Failure(Arc::clone(response), Key::new(request, answer))
        }
        Err(response) => Content::Error(Arc::clone(response)),
    }
}

/// Subtracts one, and removes a count of zero.
fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
