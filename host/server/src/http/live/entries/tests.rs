//! Unit tests of entries: each step of a client and of the evaluator is a call.

use super::{
    Added, Answer, Client, Content, Entries, GuestRequest, Instant, LiveLimits, LiveTally,
    OwnResponse, Peer, RecordedResponse, Task,
};
use crate::http::live::Refusal;
use crate::http::live::fixture::{Fixture, request};
use crate::registry::{Mount, Mounts};
use crate::response::CompressionPermits;
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::StatusCode;
use relayer_rest_sandbox::GuestResponse;
use relayer_rest_state::{ChainConfig, ChainKind, Stale};
use std::sync::Arc;
use std::time::Duration;

/// The entries of a server, whose clients wait for one path.
struct Table {
    fixture: Fixture,
    entries: Entries,
    limits: LiveLimits,
    tally: LiveTally,
    request: Arc<GuestRequest>,
    client: Client,
    /// The time of the last step: each is a minute later.
    now: Instant,
}

impl Table {
    fn new(path: &str, limits: LiveLimits) -> Self {
        Self::on(Fixture::new(), path, limits)
    }

    fn on(fixture: Fixture, path: &str, limits: LiveLimits) -> Self {
        let tally = LiveTally::default();
        let snapshot = fixture.publisher.reader().snapshot();
        let entries = Entries::new(limits.clone(), tally.clone(), snapshot);
        let request = Arc::new(request(path));
        let client = Client::new(&request, Peer::SEVERAL);
        Self { fixture, entries, limits, tally, request, client, now: Instant::now() }
    }

    /// Adds a client with this answer.
    fn add(&mut self, answer: Answer) -> Added {
        let added = self.entries.add(&self.client, &self.request, answer, &self.fixture.registry);
        added.unwrap_or_else(|_| panic!("there is room"))
    }

    /// Adds a client with the current answer.
    async fn join(&mut self) -> Added {
        let answer = self.answer().await;
        self.add(answer)
    }

    /// Returns the current answer.
    async fn answer(&self) -> Answer {
        self.fixture.answer_to(&self.request).await
    }

    /// Publishes a state with another chain, and notices it.
    fn change(&mut self) {
        let chain =
            format!("chain-{}", self.fixture.publisher.reader().snapshot().generation().number());
        self.fixture.publisher.update_state(|state| state.chains.push(chain.into()));
        self.observe();
    }

    fn observe(&mut self) {
        self.entries.observe(&self.fixture.publisher.reader().snapshot());
    }

    /// Begins the evaluations that are due a minute later.
    fn begin(&mut self) -> Vec<Task> {
        self.now += Duration::from_mins(1);
        self.entries.take_due(self.now)
    }

    /// Begins the only evaluation that is due.
    fn begin_one(&mut self) -> Task {
        let [task] = self.begin().try_into().unwrap_or_else(|_| panic!("one entry is due"));
        task
    }

    /// Ends an evaluation, for which the module was run.
    fn end(&mut self, task: Task, answer: Answer) {
        self.entries.complete(task, answer, true, &self.fixture.registry);
    }

    /// Evaluates the entry that is due.
    async fn evaluate(&mut self) {
        let task = self.begin_one();
        let answer = self.answer().await;
        self.end(task, answer);
    }

    /// Adds an extension without a module at this path.
    fn extend(&self, path: &str) -> Arc<Mount> {
        let registry = &self.fixture.registry;
        let api = registry.at("/").unwrap();
        let engine = api.engine().clone();
        let extension = Arc::new(Mount::empty(path.parse().unwrap(), "other", engine));
        registry.exchange(Mounts::new(api).with(Arc::clone(&extension)).unwrap());
        extension
    }

    /// Takes all memory that is left, until the returned value is dropped.
    fn without_memory(&self) -> impl Sized + use<> {
        let limit = self.limits.memory.as_u64();
        let left = usize::try_from(limit - self.tally.status().bytes).unwrap();
        self.tally.count(left, limit).unwrap()
    }
}

fn parts(answer: &Answer) -> (Arc<Mount>, Arc<RecordedResponse>) {
    (Arc::clone(&answer.mount), answer.outcome.clone().unwrap())
}

/// Returns the failure of a module in place of this answer.
fn failure(answer: &Answer) -> Answer {
    let mut response = hyper::Response::new(Bytes::from_static(b"failed"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let (mount, active) = (Arc::clone(&answer.mount), answer.active.clone());
    let outcome = Err(Arc::new(response));
    Answer { mount, active, outcome, is_failure: true, asked_at: answer.asked_at }
}

/// Returns an answer with the same reads, and a body that is always the same.
fn equal(answer: &Answer) -> Answer {
    let active = answer.active.as_ref().unwrap();
    let before = answer.outcome.as_ref().unwrap();
    let response = GuestResponse {
        response: hyper::Response::new(Bytes::from_static(b"same")),
        reads: before.reads().clone(),
        commands: Vec::new(),
        memory: 0,
    };
    let permits = CompressionPermits::default();
    let (module, generation) = (active.module(), before.generation());
    let response =
        RecordedResponse::new(module, (&**before.request()).into(), response, generation, &permits);
    Answer { outcome: Ok(Arc::new(response)), ..answer.clone() }
}

/// Returns whether a client's newest version is this response.
fn has(added: &mut Added, response: &RecordedResponse) -> bool {
    let version = added.versions.newest();
    let body = &response.plain().body;
    matches!(version.content(), Content::Response(one) if one.plain().body == *body)
}

/// Otherwise, they would wait for ever.
#[tokio::test]
async fn clients_learn_of_the_end_also_if_there_is_no_memory() {
    let mut table = Table::new("/state", LiveLimits::default());
    let mut added = table.join().await;
    let _all = table.without_memory();
    table.entries.end(Instant::now() + Duration::from_secs(1));
    assert!(matches!(added.versions.newest().content(), Content::Ended(_)));
}

/// A publication costs nothing for each response that has read none of its changes.
#[tokio::test]
async fn a_publication_affects_the_entries_of_changed_values_only() {
    const CHAINS: usize = 50;
    let mut table = Table::new("/state", LiveLimits::default());
    let ids: Vec<_> = (0..CHAINS).map(|number| format!("chain-{number}")).collect();
    let publish = |table: &mut Table, changed: Option<usize>| {
        let before = Arc::clone(&table.entries.seen);
        let chain = |(number, id): (usize, &String)| ChainConfig {
            max_gas: Some(u64::from(changed == Some(number))),
            ..ChainConfig::new(&**id, ChainKind::CosmosSdk)
        };
        let chains = ids.iter().enumerate().map(chain).collect();
        table.fixture.publisher.set_chains(chains).unwrap();
        table.observe();
        table.entries.readers_of_changes(&before).len()
    };
    publish(&mut table, None);
    let mut added = vec![table.join().await];
    for id in &ids {
        table.request = Arc::new(request(&format!("/chain/{id}")));
        table.client = Client::new(&table.request, Peer::SEVERAL);
        added.push(table.join().await);
    }
    assert_eq!(table.entries.by_id.len(), CHAINS + 1);
    assert_eq!(publish(&mut table, Some(7)), 1);
    assert_eq!(table.begin().len(), 1);
    table.change();
    assert_eq!(table.begin().len(), 1);
}

/// An absent chain is compared by its absence, and not by a generation.
#[tokio::test]
async fn a_version_whose_values_return_is_published_again() {
    let mut table = Table::new("/chain/b", LiveLimits::default());
    let set_chains = |table: &Table, ids: &[&str]| {
        let chains = ids.iter().map(|id| ChainConfig::new(*id, ChainKind::CosmosSdk));
        table.fixture.publisher.set_chains(chains.collect()).unwrap();
    };
    set_chains(&table, &["a"]);
    table.observe();
    let absent = table.answer().await;
    let (mount, older) = parts(&absent);
    let (active, asked_at) = (absent.active.clone(), absent.asked_at);
    let mut added = table.add(absent);

    set_chains(&table, &["a", "b"]);
    table.observe();
    let present = table.answer().await;
    let (_, newer) = parts(&present);
    assert_eq!((older.status().as_u16(), newer.status().as_u16()), (404, 200));
    let task = table.begin_one();
    table.end(task, present);
    assert!(has(&mut added, &newer));

    set_chains(&table, &["a"]);
    table.observe();
    let task = table.begin_one();
    let outcome = Ok(Arc::clone(&older));
    table.end(task, Answer { mount, active, outcome, is_failure: false, asked_at });
    assert!(has(&mut added, &older));
}

/// Its state is not known, and may be older than the one that clients have.
#[tokio::test]
async fn a_failure_does_not_replace_a_newer_response() {
    let mut table = Table::new("/state", LiveLimits::default());
    let mut first = table.join().await;
    table.change();
    let task = table.begin_one();
    // Another request gets the response, while the evaluator's run on an older state goes on.
    table.change();
    let answer = table.answer().await;
    let (_, newer) = parts(&answer);
    let failure = failure(&answer);
    let _second = table.add(answer);
    assert!(has(&mut first, &newer));
    table.end(task, failure);
    assert!(has(&mut first, &newer));
    assert!(table.begin().is_empty(), "the newer response is current");
}

#[tokio::test]
async fn a_failure_is_repeated_after_any_publication() {
    let mut table = Table::new("/state", LiveLimits::default());
    let mut added = table.join().await;
    table.change();
    let task = table.begin_one();
    let failure = failure(&table.answer().await);
    table.end(task, failure);
    assert!(matches!(added.versions.newest().content(), Content::Failure(..)));
    // It is not known whether the module read this before it failed.
    table.fixture.publisher.set_components(Vec::new());
    table.observe();
    let next = table.entries.next_due(table.now).unwrap();
    assert!(next <= table.now + table.limits.min_interval, "it is not a retry");
    table.evaluate().await;
    // Other requests of the entry may still fail.
    assert!(matches!(added.versions.newest().content(), Content::Moved));
}

#[tokio::test]
async fn a_response_without_memory_is_an_error_that_is_sent_once() {
    let mut table = Table::new("/state", LiveLimits::default());
    let mut added = table.join().await;
    let all = table.without_memory();
    table.change();
    table.evaluate().await;
    let version = added.versions.newest();
    let Content::Error(error) = version.content() else { panic!("{version:?}") };
    assert_eq!(error.status(), 503);
    let woken = table.tally.status().wakeups;
    table.evaluate().await;
    assert!(Arc::ptr_eq(&added.versions.newest(), &version));
    assert_eq!(table.tally.status().wakeups, woken);
    drop(all);
    table.evaluate().await;
    let (_, response) = parts(&table.answer().await);
    assert!(has(&mut added, &response));
}

/// Clients count for the mount that they joined.
#[tokio::test]
async fn clients_move_if_another_mount_fails_for_their_path() {
    let limits = LiveLimits { waiters_per_mount: 1, ..LiveLimits::default() };
    let mut table = Table::new("/other/state", limits);
    let answer = table.answer().await;
    let mut added = table.add(failure(&answer));
    let extension = table.extend("/other");
    table.entries.activated(&table.fixture.registry);
    let task = table.begin_one();
    let answer = Answer { mount: extension, active: None, ..failure(&answer) };
    table.end(task, answer.clone());
    assert!(matches!(added.versions.newest().content(), Content::Moved));
    for _ in 0..3 {
        table.entries.remove(added.id, &table.client);
        added = table.add(answer.clone());
    }
    assert_eq!(table.tally.status().waiters, 1);
}

#[tokio::test]
async fn the_memory_of_a_request_counts_until_its_entry_ends() {
    let mut table = Table::new("/state", LiveLimits::default());
    let mut long = request("/state");
    long.headers.insert("x-long", "a".repeat(10_000).parse().unwrap());
    table.client = Client::new(&long, Peer::SEVERAL);
    table.request = Arc::new(long);
    let added = table.join().await;
    for _ in 0..3 {
        table.change();
        table.evaluate().await;
        // The client's request, that of the entry, and its parts in the key.
        assert!(table.tally.status().bytes >= 30_000, "{:?}", table.tally.status());
    }
    table.entries.remove(added.id, &table.client);
    drop(added);
    assert_eq!(table.tally.status().bytes, 0);
}

#[tokio::test]
async fn cached_answers_take_no_runs_of_the_budget() {
    let limits = LiveLimits { runs_per_second: 1, ..LiveLimits::default() };
    let mut table = Table::new("/state", limits);
    let _added = table.join().await;
    let now = table.now + Duration::from_mins(1);
    for _ in 0..3 {
        table.change();
        let [task] = table.entries.take_due(now).try_into().unwrap_or_else(|_| panic!("no run"));
        let answer = table.answer().await;
        table.entries.complete(task, answer, false, &table.fixture.registry);
        table.now = now;
        // Between two evaluations of the entry.
        table.entries.by_id.values_mut().for_each(|entry| entry.last_run = None);
    }
    table.change();
    let task = table.entries.take_due(now).pop().unwrap();
    let answer = table.answer().await;
    table.entries.complete(task, answer, true, &table.fixture.registry);
    assert!(table.entries.reserve_run(now) > now);
}

/// A slow module delays neither the entries of other mounts nor all runs of its own.
#[tokio::test]
async fn each_mount_has_at_most_four_evaluations_at_once() {
    let mut table = Table::new("/", LiveLimits::default());
    table.extend("/other");
    let mut clients = Vec::new();
    for path in ["/state?1", "/state?2", "/state?3", "/state?4", "/state?5", "/other/state"] {
        table.request = Arc::new(request(path));
        // Each has an entry of its own, as if the module read the query.
        let answer = failure(&table.answer().await);
        clients.push(table.add(answer));
    }
    let mut tasks = table.begin();
    let paths: Vec<_> = tasks.iter().map(|task| task.request.target.path()).collect();
    assert_eq!(paths, ["/state", "/state", "/state", "/state", "/other/state"]);
    assert!(table.begin().is_empty() && table.entries.next_due(table.now).is_none());
    let answer = table.answer().await;
    let task = tasks.remove(0);
    table.end(task, failure(&answer));
    assert!(table.entries.next_due(table.now).is_some());
    assert_eq!(table.begin_one().request.target.query(), Some("5"));
}

#[tokio::test]
async fn half_of_the_runs_of_a_mount_are_for_clients_that_ask_now() {
    for (concurrency, expected, turns) in [(1, 1, 1), (3, 1, 1), (4, 2, 1), (64, 4, 2)] {
        let fixture = Fixture::with_limits(&format!("concurrency = {concurrency}"));
        let mut table = Table::on(fixture, "/", LiveLimits::default());
        let mut clients = Vec::new();
        for path in ["/state?1", "/state?2", "/state?3", "/state?4", "/state?5"] {
            table.request = Arc::new(request(path));
            let answer = failure(&table.answer().await);
            clients.push(table.add(answer));
        }
        assert_eq!(table.begin().len(), expected, "{concurrency}");
        let api = table.fixture.registry.at("/").unwrap();
        // Clients that look for responses of their own have the same permits.
        assert_eq!(table.entries.permits(&api).available_permits(), expected);
        // Only so many of them queue for the permits, which the entries would never have otherwise.
        assert_eq!(table.entries.turns(&api).available_permits(), turns);
    }
}

/// The run of a module for a new client may have begun before a publication.
#[tokio::test]
async fn a_failure_on_an_older_state_is_repeated_at_once() {
    let mut table = Table::new("/state", LiveLimits::default());
    let older = failure(&table.answer().await);
    table.change();
    let _client = table.add(older);
    let next = table.entries.next_due(table.now).unwrap();
    assert!(next <= Instant::now(), "it is not a retry");
    let mut table = Table::new("/state", LiveLimits::default());
    let current = failure(&table.answer().await);
    let _client = table.add(current);
    assert!(table.entries.next_due(table.now).unwrap() > table.now + table.limits.min_interval);
}

#[tokio::test]
async fn a_client_that_leaves_during_a_run_causes_no_other_one_at_once() {
    let mut table = Table::new("/state", patient());
    let added = table.join().await;
    table.change();
    let task = table.begin_one();
    table.entries.remove(added.id, &table.client);
    let failure = failure(&table.answer().await);
    table.end(task, failure.clone());
    let since = table.fixture.publisher.reader().peek().generation();
    let own = table.entries.own_response(&table.request, since, &table.fixture.registry);
    let OwnResponse::Answered(_) = own else { panic!("the run is known") };
    // The next client's failure is repeated after the interval.
    table.change();
    let _client = table.add(failure);
    let next = table.entries.next_due(table.now).unwrap();
    assert!(next >= Instant::now() + table.limits.min_interval / 2);
}

/// Returns limits for runs that are not forgotten during a test.
fn patient() -> LiveLimits {
    LiveLimits { min_interval: Duration::from_hours(1), ..LiveLimits::default() }
}

/// Their responses may not be cached, and a client can leave during its run.
#[tokio::test]
async fn equal_requests_share_the_answer_of_a_run_and_other_runs_of_theirs_are_later() {
    let mut table = Table::on(Fixture::with_limits("response-cache = '0B'"), "/state", patient());
    let own = |table: &mut Table, headers: &[(&'static str, &str)], target: &str, since| {
        let mut request = request(target);
        for (name, value) in headers {
            request.headers.insert(*name, value.parse().unwrap());
        }
        table.entries.own_response(&request, since, &table.fixture.registry)
    };
    let since = table.fixture.publisher.reader().peek().generation();
    // Each has another id.
    let mut number = 0;
    let mut equal = |table: &mut Table, since| {
        number += 1;
        own(table, &[("x-request-id", &number.to_string())], "/state", since)
    };
    let OwnResponse::Run(key) = equal(&mut table, since) else { panic!("it is new") };
    let run = table.entries.begin_run(key);
    let OwnResponse::Later(next) = equal(&mut table, since) else { panic!("it has begun") };
    assert_eq!(next.time, None, "no run begins before the end of another one");
    for (target, headers) in [
        ("/state?a", &[][..]),
        ("/chains", &[]),
        ("/state", &[("host", "a")]),
        ("/state", &[("range", "a")]),
    ] {
        let response = own(&mut table, headers, target, since);
        assert!(matches!(response, OwnResponse::Run(_)), "{target} is of another request");
    }
    let answer = table.answer().await;
    table.entries.end_run(key, run, &answer, "/state", &table.fixture.registry);
    assert!(next.over().now_or_never().is_some());
    let OwnResponse::Answered(shared) = equal(&mut table, since) else { panic!("it has ended") };
    assert!(Arc::ptr_eq(&shared.outcome.unwrap(), answer.outcome.as_ref().unwrap()));
    // A client that comes after a publication needs an answer after it.
    table.change();
    let later = table.fixture.publisher.reader().peek().generation();
    assert!(matches!(equal(&mut table, since), OwnResponse::Answered(_)));
    assert!(matches!(equal(&mut table, later), OwnResponse::Later(..)));
    // Such as the one of the evaluator.
    let answer = table.answer().await;
    let _client = table.add(answer);
    table.change();
    let last = table.fixture.publisher.reader().peek().generation();
    table.now += table.limits.min_interval;
    let task = table.begin_one();
    let answer = table.answer().await;
    table.end(task, answer);
    assert!(matches!(equal(&mut table, last), OwnResponse::Answered(_)));
}

/// Each of them takes the next run of the budget before that is there.
#[tokio::test]
async fn clients_that_wait_for_the_budget_do_not_take_the_run_of_a_due_entry() {
    let limits = LiveLimits { runs_per_second: 1, ..LiveLimits::default() };
    let mut table = Table::new("/state", limits);
    let _added = table.join().await;
    table.change();
    let now = table.now + Duration::from_mins(1);
    assert_eq!(table.entries.reserve_run(now), now);
    let of_client = table.entries.reserve_run(now);
    assert!(table.entries.take_due(now).is_empty());
    let due = table.entries.next_due(now).unwrap();
    assert!(due > of_client);
    let of_other = table.entries.reserve_run(of_client);
    assert!(of_other > due);
    assert_eq!(table.entries.take_due(due).len(), 1);
    assert_eq!(table.entries.reserved, None);
}

/// The evaluator began it before the activation.
#[tokio::test]
async fn the_answer_of_a_module_that_is_not_active_is_not_shared() {
    let mut table = Table::new("/state", patient());
    let added = table.join().await;
    table.change();
    let task = table.begin_one();
    table.entries.remove(added.id, &table.client);
    let since = table.fixture.publisher.reader().peek().generation();
    let answer = Answer { active: None, ..failure(&table.answer().await) };
    table.end(task, answer);
    let own = table.entries.own_response(&table.request, since, &table.fixture.registry);
    assert!(matches!(own, OwnResponse::Run(_)));
}

/// Runs of other modules are not repetitions of them.
#[tokio::test]
async fn an_activation_ends_the_waits_for_later_runs() {
    let mut table = Table::new("/state", patient());
    let since = table.fixture.publisher.reader().peek().generation();
    let answer = failure(&table.answer().await);
    let own = |table: &mut Table, since| {
        table.entries.own_response(&table.request, since, &table.fixture.registry)
    };
    let OwnResponse::Run(key) = own(&mut table, since) else { panic!("it is new") };
    let run = table.entries.begin_run(key);
    table.entries.activated(&table.fixture.registry);
    let OwnResponse::Later(_) = own(&mut table, since) else { panic!("it is in progress") };
    let other = Answer { active: None, ..answer.clone() };
    table.entries.end_run(key, run, &other, "/state", &table.fixture.registry);
    let OwnResponse::Run(key) = own(&mut table, since) else { panic!("it was of another module") };
    let run = table.entries.begin_run(key);
    table.entries.end_run(key, run, &answer, "/state", &table.fixture.registry);
    table.change();
    let since = table.fixture.publisher.reader().peek().generation();
    let OwnResponse::Later(next) = own(&mut table, since) else { panic!("it was before") };
    table.entries.activated(&table.fixture.registry);
    assert!(next.over().now_or_never().is_some());
    assert!(matches!(own(&mut table, since), OwnResponse::Run(_)));
}

/// An error of the host is not the answer of a run.
#[tokio::test]
async fn equal_requests_share_failures_and_no_other_errors() {
    let mut table = Table::new("/state", patient());
    let since = table.fixture.publisher.reader().peek().generation();
    let failed = failure(&table.answer().await);
    for is_failure in [false, true] {
        let own = table.entries.own_response(&table.request, since, &table.fixture.registry);
        let OwnResponse::Run(key) = own else { panic!("nothing is kept") };
        let run = table.entries.begin_run(key);
        table.entries.end_run(
            key,
            run,
            &Answer { is_failure, ..failed.clone() },
            "/state",
            &table.fixture.registry,
        );
    }
    let own = table.entries.own_response(&table.request, since, &table.fixture.registry);
    assert!(matches!(own, OwnResponse::Answered(Answer { is_failure: true, .. })));
}

#[tokio::test]
async fn a_client_without_room_in_the_entry_of_a_failure_is_refused() {
    let limits = LiveLimits { waiters_per_mount: 1, ..LiveLimits::default() };
    let mut table = Table::new("/state", limits);
    let failure = failure(&table.answer().await);
    let _first = table.add(failure);
    let Table { entries, client, request, fixture, tally, .. } = &mut table;
    let joined = entries.join_failure(client, request, &fixture.registry);
    assert!(matches!(joined, Err(Refusal::Overloaded)));
    assert_eq!(tally.status().refused, 1);
}

/// A response of another request may come during an evaluation.
#[tokio::test]
async fn a_response_without_memory_is_sent_later_also_if_a_run_ends_meanwhile() {
    let mut table = Table::new("/state", LiveLimits::default());
    let mut first = table.join().await;
    table.change();
    let task = table.begin_one();
    table.change();
    let answer = table.answer().await;
    let (_, newer) = parts(&answer);
    let failure = failure(&answer);
    let limit = table.limits.memory.as_u64();
    let size = u64::try_from(table.client.size()).unwrap();
    let left = usize::try_from(limit - table.tally.status().bytes - size).unwrap();
    let all = table.tally.count(left, limit).unwrap();
    let _second = table.add(answer);
    assert!(matches!(first.versions.newest().content(), Content::Error(_)));
    table.end(task, failure);
    drop(all);
    table.evaluate().await;
    assert!(has(&mut first, &newer));
}

/// A module may read other values for an equal response.
#[tokio::test]
async fn staleness_is_that_of_the_values_that_were_read_last() {
    let mut table = Table::new("/chains", LiveLimits::default());
    let answer = equal(&table.answer().await);
    let mut added = table.add(answer);
    let unconfirmed = Stale { since: std::time::Instant::now(), chains: false };
    table.fixture.publisher.set_stale(Some(unconfirmed));
    table.observe();
    assert_eq!(added.versions.newest().stale_since, None, "the chains are confirmed");
    let chain = ChainConfig::new("a", ChainKind::CosmosSdk);
    table.fixture.publisher.set_chains(vec![chain]).unwrap();
    table.observe();
    let task = table.begin_one();
    let answer = equal(&table.fixture.answer_to(&request("/state")).await);
    table.end(task, answer);
    assert!(added.versions.newest().stale_since.is_some());
}
