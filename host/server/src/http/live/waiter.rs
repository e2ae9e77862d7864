//! A client that waits for the next version of a response.

use std::sync::Arc;

use relayer_rest_sandbox::GuestRequest;
use relayer_rest_state::Generation;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::content::Content;
use super::entries::{self, Added, NotAdded};
use super::key::Key;
use super::own_run::OwnResponse;
use super::resolve::{self, Answer};
use super::version::Version;
use super::{Refusal, Shared};

/// The maximum number of answers that a client asks for while modules are activated, or others are
/// answered.
const MAX_TRIES: u32 = 10;

/// A client that waits until this is dropped.
pub(in crate::http) struct Waiter {
    shared: Arc<Shared>,
    client: Client,
    /// The entry; `None` while the client looks for another one.
    added: Option<Added>,
    /// The run for a response of its own, which goes on while the client is sent a comment.
    run: Option<JoinSet<Ran>>,
}

/// The answer of a run for a client; `None` if none is needed any more.
type Ran = Result<Option<Answer>, Refusal>;

impl Waiter {
    pub(super) async fn new(
        shared: Arc<Shared>,
        client: Client,
        answer: Answer,
    ) -> Result<Self, Refusal> {
        shared.start_evaluator();
        let mut waiter = Self { shared, client, added: None, run: None };
        let request = waiter.client.request();
        waiter.added = Some(match waiter.shared.add(&waiter.client, &request, answer) {
            Ok(added) => added,
            Err(NotAdded::Refused(refusal)) => return Err(refusal),
            Err(NotAdded::Outdated) => Box::pin(waiter.join()).await?,
        });
        Ok(waiter)
    }

    /// Returns the newest version. May be cancelled.
    ///
    /// # Errors
    /// Returns an error if the client can no longer wait.
    pub(super) async fn newest(&mut self) -> Result<Arc<Version>, Refusal> {
        loop {
            let Some(added) = &mut self.added else {
                // Boxed, because it is rare, and enlarges the future of each client.
                self.added = Some(Box::pin(self.join()).await?);
                continue;
            };
            let version = added.versions.newest();
            if let Content::Ended(end) = version.content() {
                return Err(Refusal::Ending(*end));
            }
            if !self.must_move(version.content()) {
                return Ok(version);
            }
            self.leave();
        }
    }

    /// Looks for the entry of its request: with the cached response, or by a run. If the module fails
    /// for equal requests, the client joins them. May be cancelled.
    async fn join(&mut self) -> Result<Added, Refusal> {
        let request = self.client.request();
        let mut ended = self.take_ended(&request);
        for _ in 0..MAX_TRIES {
            let found = resolve::find(&self.shared.registry, &self.shared.state, &request).ok();
            if found.is_none()
                && let Some(added) = self.shared.join_failure(&self.client, &request)?
            {
                self.run = None;
                return Ok(added);
            }
            let answer = match found.or_else(|| ended.take()) {
                Some(answer) => Some(answer),
                None => self.run(&request).await?,
            };
            let Some(answer) = answer else { continue };
            match self.shared.add(&self.client, &request, answer) {
                Err(NotAdded::Outdated) => {}
                Err(NotAdded::Refused(refusal)) => return Err(refusal),
                Ok(added) => {
                    self.run = None;
                    return Ok(added);
                }
            }
        }
        Err(Refusal::Overloaded)
    }

    /// Takes the answer of a run that ended while the client did not read, if it is one on the present
    /// state.
    fn take_ended(&mut self, request: &GuestRequest) -> Option<Answer> {
        let ended = self.run.as_mut()?.try_join_next()?;
        self.run = None;
        let answer = ended.ok()?.ok()??;
        self.shared.is_valid(&answer, request).then_some(answer)
    }

    /// Runs the module on the thread of the evaluator, which has a lower priority. May be cancelled.
    async fn run(&mut self, request: &Arc<GuestRequest>) -> Ran {
        let shared = &self.shared;
        let run = self.run.get_or_insert_with(|| {
            let mut run = JoinSet::new();
            let runtime = shared.runtime.get().cloned().unwrap_or_else(Handle::current);
            run.spawn_on(answer(Arc::clone(shared), Arc::clone(request)), &runtime);
            run
        });
        let ran = run.join_next().await;
        self.run = None;
        match ran {
            Some(Ok(ran)) => ran,
            // The evaluator has ended, with its thread.
            _ => Err(shared.entries().ending().map_or(Refusal::Overloaded, Refusal::Ending)),
        }
    }

    /// Returns whether the client's request has a response of its own.
    fn must_move(&self, content: &Content) -> bool {
        match content {
            Content::Moved => true,
            Content::Failure(_, key) => {
                let request = self.client.request();
                let mounts = self.shared.registry.now();
                *key != Key::of_failure(&request, mounts.route(request.target.path()).path())
            }
            _ => false,
        }
    }

    /// Waits for a newer version, and returns it. May be cancelled.
    ///
    /// # Errors
    /// Returns an error if the client can no longer wait.
    pub(super) async fn next(&mut self) -> Result<Arc<Version>, Refusal> {
        if let Some(added) = &mut self.added {
            added.versions.changed().await;
        }
        self.newest().await
    }

    /// Leaves the entry.
    fn leave(&mut self) {
        if let Some(added) = self.added.take() {
            self.shared.entries().remove(added.id, &self.client);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A run of the budget.
struct BudgetedRun {
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
    has_begun: bool,
}

impl Drop for BudgetedRun {
    fn drop(&mut self) {
        if !self.has_begun {
            self.shared.entries().give_back_run();
        }
        // The evaluator may have waited for the permit, or for the budget.
        drop(self.permit.take());
        self.shared.due.notify_one();
    }
}

/// Returns the answer to a request by a run of the module, as soon as the budget has one, and the
/// mount may begin an evaluation, or by a run for an equal request. May be cancelled.
async fn answer(shared: Arc<Shared>, request: Arc<GuestRequest>) -> Ran {
    let since = shared.state.peek().generation();
    loop {
        let equal = shared.entries().own_response(&request, since, &shared.registry);
        if is_answered(&shared, &request)? {
            return Ok(None);
        }
        match equal {
            OwnResponse::Answered(answer) => return Ok(Some(answer)),
            OwnResponse::Later(next) => next.over().await,
            OwnResponse::Run(_) => {
                if let Some(answer) = run_within_budget(&shared, &request, since).await? {
                    return Ok(Some(answer));
                }
            }
        }
    }
}

/// Runs a module as soon as the budget has a run, and the mount may begin an evaluation. Returns
/// `None` if another answer is there, or in progress.
async fn run_within_budget(
    shared: &Arc<Shared>,
    request: &Arc<GuestRequest>,
    since: Generation,
) -> Ran {
    let find = || resolve::find(&shared.registry, &shared.state, request).err();
    let own = || shared.entries().own_response(request, since, &shared.registry);
    let Some(missed) = find() else { return Ok(None) };
    let turns = shared.entries().turns(missed.mount());
    let _of_mount = turns.acquire_owned().await.ok();
    // Mounts take turns: if all waited for the budget, each run would wake all of them.
    let turn = shared.turn.lock().await;
    if is_answered(shared, request)? || !matches!(own(), OwnResponse::Run(_)) {
        return Ok(None);
    }
    let time = shared.entries().reserve_run(Instant::now());
    let mut run = BudgetedRun { shared: Arc::clone(shared), permit: None, has_begun: false };
    sleep_until(time).await;
    if is_answered(shared, request)? {
        return Ok(None);
    }
    let Some(missed) = find() else { return Ok(None) };
    let permits = shared.entries().permits(missed.mount());
    drop(turn);
    run.permit = permits.acquire_owned().await.ok();
    // It may be another request's response by now.
    if is_answered(shared, request)? {
        return Ok(None);
    }
    let Some(missed) = find() else { return Ok(None) };
    let OwnResponse::Run(own) = shared.own_response(request, since) else { return Ok(None) };
    run.has_begun = true;
    let answer = missed.run(&shared.state).await;
    shared.entries().ran();
    own.end(&answer);
    Ok(Some(answer))
}

/// Returns whether a request has a cached response, or the failure of equal requests.
///
/// # Errors
/// Returns an error if the server ends all waits.
fn is_answered(shared: &Shared, request: &GuestRequest) -> Result<bool, Refusal> {
    if resolve::find(&shared.registry, &shared.state, request).is_ok() {
        return Ok(true);
    }
    let entries = shared.entries();
    match entries.ending() {
        Some(end) => Err(Refusal::Ending(end)),
        None => Ok(entries.has_failure(request, &shared.registry)),
    }
}

impl Shared {
    /// Returns whether an answer is that on the present state.
    fn is_valid(&self, answer: &Answer, request: &GuestRequest) -> bool {
        let now = self.state.snapshot();
        match &answer.outcome {
            Ok(response) => entries::is_valid(response, request, &now),
            Err(_) => answer.asked_at >= now.generation(),
        }
    }

    fn join_failure(
        &self,
        client: &Client,
        request: &Arc<GuestRequest>,
    ) -> Result<Option<Added>, Refusal> {
        self.entries().join_failure(client, request, &self.registry)
    }

    fn add(
        &self,
        client: &Client,
        request: &Arc<GuestRequest>,
        answer: Answer,
    ) -> Result<Added, NotAdded> {
        let mut entries = self.entries();
        entries.observe(&self.state.snapshot());
        let added = entries.add(client, request, answer, &self.registry);
        // It may be due at once.
        self.due.notify_one();
        added
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, BudgetedRun, Client, Content, JoinSet, OwnResponse, Waiter};
    use crate::http::connections::Peer;
    use crate::http::live::fixture::{Fixture, request};
    use crate::http::live::resolve::{Answer, runs};
    use bytes::Bytes;
    use futures_util::FutureExt;
    use futures_util::future::join;
    use relayer_rest_common::priority;
    use rustix::process::getpriority_process;
    use std::thread;
    use std::time::Duration;
    use tokio::sync::{Semaphore, oneshot};
    use tokio::task::yield_now;
    use tokio::time::{Instant, timeout};

    #[tokio::test]
    async fn a_run_whose_client_leaves_gives_back_what_it_has_taken() {
        let fixture = Fixture::new();
        let shared = &fixture.live.0;
        let permits = Arc::new(Semaphore::new(1));
        let now = Instant::now();
        // Until the budget has no further one.
        let take = || {
            let mut entries = shared.entries();
            let is_there = entries.reserve_run(now) == now;
            if !is_there {
                entries.give_back_run();
            }
            is_there
        };
        while take() {}
        for has_begun in [false, true] {
            let permit = Arc::clone(&permits).try_acquire_owned().ok();
            assert!(permit.is_some());
            drop(BudgetedRun { shared: Arc::clone(shared), permit, has_begun });
            assert_eq!(take(), !has_begun);
            assert!(shared.due.notified().now_or_never().is_some(), "the evaluator waits");
        }
        assert_eq!(permits.available_permits(), 1);
    }

    /// A comment of its stream interrupts a client that waits for a run of its own.
    #[tokio::test]
    async fn a_client_whose_move_was_interrupted_moves_on() {
        let fixture = Fixture::new();
        let shared = Arc::clone(&fixture.live.0);
        let waiter = async |headers: &[(&'static str, &str)]| {
            let mut request = request("/state");
            for (name, value) in headers {
                request.headers.insert(*name, value.parse().unwrap());
            }
            let client = Client::new(&request, Peer::SEVERAL);
            let added = shared.add(&client, &client.request(), fixture.answer().await);
            Waiter { shared: Arc::clone(&shared), client, added: added.ok(), run: None }
        };
        let mut first = waiter(&[]).await;
        let mut second = waiter(&[("x-other", "1")]).await;
        assert!(second.next().await.is_ok());
        let mut due = Instant::now();
        let mut evaluate = |is_failure| {
            let snapshot = fixture.publisher.reader().snapshot();
            let mut entries = shared.entries();
            entries.observe(&snapshot);
            due += Duration::from_secs(2);
            let task = entries.take_due(due).pop().unwrap();
            let mount = fixture.registry.at("/").unwrap();
            let active = mount.active().map(|active| Arc::clone(&active));
            let outcome = Err(Arc::new(hyper::Response::new(Bytes::from_static(b"failed"))));
            let asked_at = snapshot.generation();
            let answer = Answer { mount, active, outcome, is_failure, asked_at };
            entries.complete(task, answer, true, &fixture.registry);
        };
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        evaluate(true);
        assert!(matches!(first.next().await.unwrap().content(), Content::Failure(..)));
        // The other request may succeed, and needs a run.
        let turn = shared.turn.lock().await;
        assert!(second.next().now_or_never().is_none());
        assert!(second.run.is_some(), "it goes on while the client is sent a comment");
        assert_eq!(fixture.tally.status().waiters, 1);
        // Its next version is not the response of the client.
        evaluate(false);
        assert!(matches!(first.next().await.unwrap().content(), Content::Error(_)));
        drop((turn, first));
        // Its run is one of the evaluations of the mount.
        let api = fixture.registry.at("/").unwrap();
        let permits = shared.entries().permits(&api);
        let count = u32::try_from(permits.available_permits()).unwrap();
        let all = permits.acquire_many_owned(count).await;
        let pause = Duration::from_millis(100);
        assert!(timeout(pause, second.next()).await.is_err(), "all evaluations are in progress");
        drop(all);
        let version = second.next().await.unwrap();
        let response = fixture.answer().await.outcome.unwrap();
        assert_eq!(version.content().text(), Some(&response.plain().body));
        assert_eq!((fixture.tally.status().waiters, fixture.tally.status().entries), (1, 1));
        assert!(second.next().now_or_never().is_none(), "nothing has changed");
    }

    #[tokio::test]
    async fn modules_run_for_waiting_clients_at_a_lower_priority() {
        let lower = || {
            priority::lower_thread();
            getpriority_process(None).unwrap()
        };
        let lower = thread::spawn(lower).join().unwrap();
        let fixture = Fixture::new();
        // For an entry.
        let evaluated = request("/state?evaluated");
        let client = Client::new(&evaluated, Peer::SEVERAL);
        let answer = fixture.answer_to(&evaluated).await;
        let mut waiter = fixture.live.wait(client, answer).await.unwrap();
        waiter.newest().await.unwrap();
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        waiter.next().await.unwrap();
        assert_eq!(runs::priorities("/state?evaluated")[1..], [lower]);
        // For a client that has no entry, when no other client waits.
        drop(waiter);
        fixture.publisher.update_state(|state| state.chains.push("c".into()));
        let moved = request("/state?moved");
        let client = Client::new(&moved, Peer::SEVERAL);
        let shared = Arc::clone(&fixture.live.0);
        let mut waiter = Waiter { shared, client, added: None, run: None };
        waiter.newest().await.unwrap();
        assert_eq!(runs::priorities("/state?moved"), [lower]);
    }

    /// It has no budget yet, and a client that asks now need not wait for that.
    #[tokio::test]
    async fn a_run_that_has_not_begun_delays_no_equal_request() {
        let fixture = Fixture::with_limits("response-cache = '0B'");
        let shared = Arc::clone(&fixture.live.0);
        let request = Arc::new(request("/state"));
        let turn = shared.turn.lock().await;
        let mut waiting = Box::pin(super::answer(Arc::clone(&shared), Arc::clone(&request)));
        assert!(waiting.as_mut().now_or_never().is_none());
        let since = shared.state.peek().generation();
        let OwnResponse::Run(run) = fixture.live.own_response(&request, since) else {
            panic!("no run has begun")
        };
        let answer = fixture.answer_to(&request).await;
        run.end(&answer);
        drop(turn);
        // It shares the answer, and needs no run.
        let shared_answer = waiting.await.unwrap().unwrap();
        let [shared_answer, answer] = [shared_answer, answer].map(|answer| answer.outcome.unwrap());
        assert!(Arc::ptr_eq(&shared_answer, &answer));
        assert_eq!(fixture.tally.status().runs, 0);
    }

    /// The client did not read meanwhile.
    #[tokio::test]
    async fn a_client_does_not_begin_with_the_state_of_a_run_that_ended_long_ago() {
        let fixture = Fixture::new();
        let shared = Arc::clone(&fixture.live.0);
        let client = Client::new(&request("/state"), Peer::SEVERAL);
        let older = fixture.answer().await;
        let mut run = JoinSet::new();
        run.spawn(async move { Ok(Some(older)) });
        yield_now().await;
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        let mut waiter = Waiter { shared, client, added: None, run: Some(run) };
        let first = waiter.newest().await.unwrap();
        let text = first.content().text().unwrap().clone();
        assert_eq!(text, fixture.answer().await.outcome.unwrap().plain().body);
    }

    /// It was interrupted by a comment, and another run would wait for the budget again.
    #[tokio::test]
    async fn a_client_is_sent_the_answer_of_its_run_that_goes_on() {
        let fixture = Fixture::new();
        let older = fixture.answer().await;
        fixture.publisher.update_state(|state| state.chains.push("b".into()));
        let failed = Err(Arc::new(hyper::Response::new(Bytes::from_static(b"failed"))));
        let failed = Answer { outcome: failed, is_failure: true, ..older };
        let shared = Arc::clone(&fixture.live.0);
        let client = Client::new(&request("/state"), Peer::SEVERAL);
        let (end, ended) = oneshot::channel();
        let mut run = JoinSet::new();
        run.spawn(async { Ok(ended.await.ok()) });
        let mut waiter = Waiter { shared, client, added: None, run: Some(run) };
        assert!(waiter.newest().now_or_never().is_none());
        let (version, ()) = join(waiter.newest(), async { drop(end.send(failed)) }).await;
        assert!(matches!(version.unwrap().content(), Content::Failure(..)));
        assert_eq!(fixture.tally.status().runs, 0);
    }

    /// Its client had the response, and does not wait.
    #[tokio::test]
    async fn the_answer_of_a_run_is_forgotten_without_a_waiting_client() {
        let fixture = Fixture::new();
        let request = request("/state");
        let since = fixture.publisher.reader().peek().generation();
        let OwnResponse::Run(run) = fixture.live.own_response(&request, since) else {
            panic!("it is the first")
        };
        run.end(&fixture.answer().await);
        assert!(fixture.live.0.entries().next_forgotten().is_some());
        while fixture.live.0.entries().next_forgotten().is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
