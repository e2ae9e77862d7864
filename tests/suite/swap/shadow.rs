//! Does a shadow compare a candidate on the requests of clients as they come, without an effect on
//! them, and does it decide about the candidate?

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use relayer_rest_host::module::Digest;
use relayer_rest_host::registry::{
    Candidate, ChangeKind, Mount, Rejection, Shadow, ShadowReport, ShadowStatus, ShadowTime,
    SwapOutcome, SwapReport, SwapStep,
};
use relayer_rest_host::state::hermes_config::HermesConfig;
use relayer_rest_host::state::{Object, RelayerState, Worker};
use relayer_rest_tests::component::{self, TRAP};
use relayer_rest_tests::server::{
    TestServer, any_dialect, candidate, engine, extension, label, patient,
};
use relayer_rest_tests::wait::{DEADLINE, until, within};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::{check_rejected, server};

/// A shadow that ends at the first difference, or when it is cancelled.
fn endless() -> Shadow {
    Shadow { abort: true, ..Shadow::new(ShadowTime::MAX) }
}

fn json(body: &str) -> Vec<u8> {
    component::of_response(200, &[("content-type", b"application/json")], body.as_bytes())
}

fn shadow_status(server: &TestServer) -> Option<ShadowStatus> {
    server.api().status().candidate?.shadow
}

/// Begins a swap with a shadow, and waits until the shadow has begun.
async fn begin(
    server: &Arc<TestServer>,
    component: Vec<u8>,
    shadow: Shadow,
) -> JoinHandle<SwapReport> {
    let candidate = Candidate { shadow: Some(shadow), ..any_dialect(component) };
    begin_as(server, "/", candidate).await
}

async fn begin_as(
    server: &Arc<TestServer>,
    path: &str,
    candidate: Candidate,
) -> JoinHandle<SwapReport> {
    let mount = server.registry.at(path).unwrap();
    let swapping = tokio::spawn({
        let mount = Arc::clone(&mount);
        let state = server.publisher.reader();
        async move { mount.swap(candidate, &state).await }
    });
    until("the shadow begins", || mount.has_shadow() || swapping.is_finished()).await;
    swapping
}

async fn ended(swapping: JoinHandle<SwapReport>) -> SwapReport {
    within("the end of the shadow", swapping).await.unwrap()
}

/// Runs a shadow on requests for new paths, until one was long enough for all of them.
async fn complete(
    server: &Arc<TestServer>,
    component: &[u8],
    expected: &str,
) -> (SwapReport, ShadowReport) {
    complete_as(server, any_dialect(component.to_owned()), expected).await
}

async fn complete_as(
    server: &Arc<TestServer>,
    candidate: Candidate,
    expected: &str,
) -> (SwapReport, ShadowReport) {
    for seconds in [1, 4, 16, 64, 256] {
        let time = ShadowTime::try_from(Duration::from_secs(seconds)).unwrap();
        let shadow =
            Shadow { expected: expected.parse().unwrap(), min_requests: 3, ..Shadow::new(time) };
        let shadowed = Candidate { shadow: Some(shadow), ..candidate.clone() };
        let swapping = begin_as(server, "/", shadowed).await;
        for path in ["a", "b", "c"] {
            let dry_run = candidate.dry_run;
            server.get(&format!("/{path}{seconds}{dry_run}")).await;
        }
        let report = ended(swapping).await;
        let shadow = report.shadow.clone().expect("there was a shadow");
        if shadow.requests == 3 {
            return (report, shadow);
        }
    }
    panic!("no shadow was long enough");
}

/// Sends a request when the swap writes its first line to the log after the shadow is shown: before
/// the swap, which is on the same thread, goes on.
struct RequestOnceShown {
    mount: Arc<Mount>,
    address: SocketAddr,
    is_sent: AtomicBool,
}

impl Subscriber for RequestOnceShown {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn event(&self, _: &Event<'_>) {
        if self.mount.has_shadow() && !self.is_sent.swap(true, SeqCst) {
            let mut stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        unreachable!("spans are disabled")
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_shadow_receives_all_requests_once_it_is_shown() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(server(&json("{}"), &patient()));
    let subscriber = Arc::new(RequestOnceShown {
        mount: server.api(),
        address: server.address,
        is_sent: AtomicBool::new(false),
    });
    // It ends at the difference of the only request; without that, at its time.
    let time = ShadowTime::try_from(Duration::from_mins(5)).unwrap();
    let shadow = Some(Shadow { abort: true, ..Shadow::new(time) });
    let candidate = Candidate { shadow, ..any_dialect(json("[]")) };
    // With only one subscriber in the process, `tracing` asks the thread that comes first to a line
    // whether any thread logs it, and the threads of other tests do not.
    let _second = Dispatch::new(Arc::clone(&subscriber));
    let _log = tracing::subscriber::set_default(Arc::clone(&subscriber));
    let report = runtime.block_on(within("the end of the shadow", server.swap_as(candidate)));
    assert!(subscriber.is_sent.load(SeqCst), "no line was logged while the shadow was shown");
    check_rejected(&report, Rejection::Differences, &["GET /: "]);
}

/// The processor time counts, and not the time of a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_takes_more_processor_time_is_rejected() {
    let new = component::that_takes(50_000_000);
    for (max, reason) in [(2, Rejection::TooSlow), (u32::MAX, Rejection::Cancelled)] {
        let server = Arc::new(server(&component::that_takes(1_000), &patient()).await);
        let mount = server.registry.at("/").unwrap();
        let shadow = Shadow { max_slowdown: Some(max.try_into().unwrap()), ..endless() };
        let swapping = begin(&server, new.clone(), shadow).await;
        let mut path = 0;
        while !swapping.is_finished() {
            server.get(&format!("/{path}")).await;
            path += 1;
            let compared = shadow_status(&server).map_or(0, |status| status.tally.requests);
            // With the lower maximum, it has ended by then.
            if compared > 10 && !mount.cancel_shadow() {
                break;
            }
        }
        let report = ended(swapping).await;
        let shadow = report.shadow.as_ref().unwrap();
        assert!(shadow.slowdown.unwrap() > 2.0, "{shadow:?}");
        assert!(shadow.requests >= 5 && shadow.unexpected == 0, "{shadow:?}");
        let parts = match reason {
            Rejection::TooSlow => ["of processor time", "raise --max-slowdown"],
            _ => ["was ended early", "swap again"],
        };
        check_rejected(&report, reason, &parts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_without_differences_is_active_after_its_shadow() {
    let old = json("{}");
    let new = component::noted(&old, "new");
    let server = Arc::new(server(&old, &patient()).await);
    let trial = Candidate { dry_run: true, ..any_dialect(new.clone()) };
    assert_eq!(complete_as(&server, trial, "").await.0.outcome, SwapOutcome::DryRun);
    assert_eq!(server.get("/").await.header("x-relayer-module"), label(&old));
    let (report, shadow) = complete(&server, &new, "").await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!((shadow.requests, shadow.generations, shadow.dropped), (3, 1, 0));
    assert_eq!((shadow.unexpected, shadow.expected, shadow.differences.len()), (0, 0, 0));
    for runs in [&shadow.active, &shadow.candidate] {
        assert_eq!((runs.runs, runs.failures), (3, 0));
        assert!(runs.peak_memory >= 2 << 16, "{runs:?}");
        assert!(runs.mean_millis > 0.0 && runs.p50_millis <= runs.p99_millis, "{runs:?}");
    }
    let steps: Vec<_> = report.steps.iter().map(|time| time.step).collect();
    assert_eq!(
        steps[3..],
        [SwapStep::Compare, SwapStep::Shadow, SwapStep::Warm, SwapStep::Activate]
    );
    // The responses to the frequent requests are cached.
    assert!(shadow.frequent >= 3);
    assert_eq!(server.get("/").await.header("x-relayer-module"), label(&new));
    assert_eq!(server.api().module().unwrap().runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_rejects_the_candidate_and_clients_do_not_see_it() {
    let old = json(r#"{"a":[1,2],"b":3}"#);
    let new = json(r#"{"a":[1,4],"b":3,"c":5}"#);
    let server = Arc::new(server(&old, &patient()).await);
    let shadow = Shadow { abort: false, ..endless() };
    let swapping = begin(&server, new.clone(), shadow).await;
    for path in ["/first?q", "/second", "/second"] {
        let response = server.get(path).await;
        assert_eq!(response.header("x-relayer-module"), label(&old));
        response.check(200, r#"{"a":[1,2],"b":3}"#);
    }
    let is_compared = || shadow_status(&server).is_some_and(|shadow| shadow.tally.requests == 2);
    until("both paths are compared", is_compared).await;
    let status = server.api().status().candidate.unwrap();
    assert_eq!((status.step, status.shadow.unwrap().tally.unexpected), (SwapStep::Shadow, 2));
    assert!(server.api().cancel_shadow());
    let report = ended(swapping).await;
    check_rejected(&report, Rejection::Cancelled, &["ended early; swap again"]);
    let shadow = report.shadow.unwrap();
    assert_eq!((shadow.requests, shadow.unexpected, shadow.dropped), (2, 2, 0));
    let differences: Vec<_> = shadow
        .differences
        .iter()
        .map(|one| (one.route.as_str(), one.kind, one.pointer.as_deref().unwrap(), one.count))
        .collect();
    assert_eq!(
        differences,
        [
            ("GET /first", ChangeKind::Added, "/c", 1),
            ("GET /first", ChangeKind::Changed, "/a/*", 1),
            ("GET /second", ChangeKind::Added, "/c", 1),
            ("GET /second", ChangeKind::Changed, "/a/*", 1),
        ]
    );
    assert_eq!(shadow.differences[1].request, "GET /first?q");
    assert_eq!(shadow.differences[1].first.describe(), "body /a/1: 2 -> 4");
    assert!(!server.api().cancel_shadow(), "there is none any more");

    let swapping = begin(&server, new, endless()).await;
    server.get("/third").await;
    let report = ended(swapping).await;
    check_rejected(&report, Rejection::Differences, &["GET /third: body ", "--expect"]);
    assert_eq!(server.get("/first").await.header("x-relayer-module"), label(&old));
    assert_eq!(server.api().status().deployments.rejections, 2);
    let totals = server.api().status().deployments.shadows;
    assert_eq!((totals.requests, totals.unexpected), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn expected_changes_do_not_reject_the_candidate() {
    let old = json(r#"{"list":[{"id":1,"old":0}]}"#);
    let new = json(r#"{"list":[{"id":2}],"new":1}"#);
    let server = Arc::new(server(&old, &patient()).await);
    let change = |kind: &str, pointer: &str| {
        format!("[[change]]\nroute = '/{{path}}'\nkind = '{kind}'\npointer = '{pointer}'\n")
    };
    let two = change("changed", "/list/*/id") + &change("added", "/new");
    let (report, shadow) = complete(&server, &new, &two).await;
    check_rejected(&report, Rejection::Differences, &["/list/0/old: 0 -> (absent)"]);
    assert_eq!((shadow.unexpected, shadow.expected), (3, 0));
    assert!(!shadow.differences[0].is_expected, "the unexpected ones are the first");
    assert_eq!(shadow.differences.iter().filter(|one| one.is_expected).count(), 6);

    let all = two + &change("removed", "/list/*/old") + &change("removed", "/other");
    // The frequent requests at the end have the API's own paths.
    let all = all.replace("'/{path}'", "'*'");
    let (report, shadow) = complete(&server, &new, &all).await;
    assert_eq!(report.outcome, SwapOutcome::Swapped);
    assert_eq!(shadow.unexpected, 0);
    assert_eq!(shadow.expected, 3 + shadow.frequent, "all are different");
    assert_eq!(shadow.unseen, ["* removed /other"]);
}

/// The state changes between the run of the active module and that of the candidate, which
/// responds with the number of chains.
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_runs_on_the_snapshot_of_the_active_module() {
    let old = component::that_counts_chains(1, 200);
    let new = component::that_counts_chains(30_000_000, 200);
    let server = Arc::new(server(&old, &patient()).await);
    let swapping = begin(&server, new, endless()).await;
    for count in [3, 0, 1, 2, 5] {
        let chain = |number| {
            format!(
                "[[chains]]\nid = 'c-{number}'\nrpc_addr = 'http://a'\ngrpc_addr = 'http://a'\n\
                 account_prefix = 'a'\nkey_name = 'a'\ngas_price = {{ price = 1, denom = 'a' }}\n\
                 event_source = {{ mode = 'push', url = 'ws://a', batch_delay = '1s' }}\n"
            )
        };
        let config: String = (0..count).map(chain).collect();
        let chains = HermesConfig::parse(&config).unwrap().chains;
        server.publisher.set_chains(chains).unwrap();
        assert_eq!(server.get("/").await.status, 200 + count);
    }
    let is_compared = || shadow_status(&server).is_none_or(|shadow| shadow.tally.requests == 5);
    until("all states are compared", is_compared).await;
    assert!(server.api().cancel_shadow());
    let shadow = ended(swapping).await.shadow.unwrap();
    assert_eq!((shadow.requests, shadow.generations, shadow.unexpected), (5, 5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_candidate_are_differences() {
    let old = component::of_response(200, &[], b"{}");
    let server = Arc::new(server(&old, &patient()).await);
    let swapping = begin(&server, component::that_traps_later("{}"), endless()).await;
    assert_eq!(server.get(TRAP).await.status, 200);
    let report = ended(swapping).await;
    let expected = [TRAP, "status: 200 -> no response: the module trapped"];
    check_rejected(&report, Rejection::Differences, &expected);
    let shadow = report.shadow.unwrap();
    assert_eq!(shadow.differences[0].kind, ChangeKind::Failure);
    assert_eq!((shadow.candidate.failures, shadow.active.failures), (1, 0));
    // A failure of the candidate has no effect on clients.
    assert_eq!(server.api().module().unwrap().digest(), Digest::new(&old));
    assert_eq!(server.api().module().unwrap().module_failures(), 0);
}

/// Both modules fail on the same request.
#[tokio::test(flavor = "multi_thread")]
async fn equal_failures_are_no_difference() {
    let old = component::that_traps_later("{}");
    let new = component::noted(&old, "new");
    let server = Arc::new(server(&old, &patient()).await);
    let swapping = begin(&server, new, endless()).await;
    assert_eq!(server.get(TRAP).await.status, 500);
    let is_compared = || shadow_status(&server).is_none_or(|shadow| shadow.tally.requests == 1);
    until("the failure is compared", is_compared).await;
    assert!(server.api().cancel_shadow());
    assert_eq!(ended(swapping).await.shadow.unwrap().unexpected, 0);
}

/// The response to one frequent request is cached all the time, and both modules fail on a more
/// frequent one after a change of the state.
#[tokio::test(flavor = "multi_thread")]
async fn cached_responses_are_compared_after_equal_failures() {
    let old = component::live(*b"broken", 0);
    let mut new = old.clone();
    let kind = b"live-kind:";
    let place = new.windows(kind.len()).position(|bytes| bytes == kind).unwrap();
    new[place..][..kind.len()].copy_from_slice(b"LIVE-KIND:");
    let server = Arc::new(server(&old, &patient()).await);
    let publish = |id| {
        let worker = Worker { id, object: Object::Wallet { chain_id: "a".into() }, data: None };
        server.publisher.set_state(RelayerState { chains: Vec::new(), workers: vec![worker] });
    };
    publish(2);
    for path in ["/a?mode=panic"; 10].into_iter().chain(["/kind"; 2]) {
        assert_eq!(server.get(path).await.status, 200);
    }
    let time = ShadowTime::try_from(Duration::from_secs(1)).unwrap();
    let shadow = Shadow { min_requests: 0, ..Shadow::new(time) };
    let swapping = begin(&server, new, shadow).await;
    publish(3);
    let report = ended(swapping).await;
    check_rejected(&report, Rejection::Differences, &["GET /kind: body /result: "]);
    let shadow = report.shadow.unwrap();
    assert_eq!((shadow.requests, shadow.unexpected), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_without_enough_requests_rejects_the_candidate() {
    let old = json("{}");
    let server = Arc::new(server(&old, &patient()).await);
    let time = ShadowTime::try_from(Duration::from_millis(1)).unwrap();
    let shadow = Shadow { min_requests: 1000, ..Shadow::new(time) };
    let report = ended(begin(&server, component::noted(&old, "new"), shadow).await).await;
    let expected = ["fewer than 1000", "choose a longer --shadow, or less --min-requests"];
    check_rejected(&report, Rejection::TooFewRequests, &expected);
}

/// The candidate is stuck at the first of many requests.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_which_a_candidate_is_too_slow_are_counted() {
    let server = Arc::new(server(&component::with_response(204, "a", b"b"), &patient()).await);
    let new = component::of_handler(&format!(
        "{} (loop br 0) unreachable",
        component::only_for("/a-long-path-of-its-own")
    ));
    let swapping = begin(&server, new, endless()).await;
    let mut client = server.connect().await;
    client.get("/a-long-path-of-its-own").await;
    for number in 0..300 {
        assert_eq!(client.get(&format!("/{number}")).await.status, 204);
    }
    assert!(server.api().cancel_shadow());
    let shadow = ended(swapping).await.shadow.unwrap();
    assert_eq!((shadow.requests, shadow.dropped), (0, 301));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_excludes_other_deployments_and_ends_at_a_rollback() {
    let first = json("1");
    let old = json("2");
    let server = Arc::new(server(&first, &patient()).await);
    assert_eq!(server.swap(old.clone()).await.outcome, SwapOutcome::Swapped);
    let swapping = begin(&server, component::noted(&old, "new"), endless()).await;
    check_rejected(&server.swap(json("3")).await, Rejection::Busy, &["in progress"]);
    // A reload that replaces the mount, and a takeover, need this lock.
    assert!(server.api().try_lock_deployment().is_none());
    server.api().rollback().unwrap();
    let report = ended(swapping).await;
    check_rejected(&report, Rejection::Conflict, &["activated during the shadow; swap again"]);
    assert_eq!(server.api().module().unwrap().digest(), Digest::new(&first));
    assert!(server.api().try_lock_deployment().is_some());
}

/// The routes of expected changes are relative to the mount.
#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_shadowed_apart_from_the_api() {
    let limits = patient();
    let mount = extension("/ext/a", &engine(&limits), &json(r#"{"a":1}"#));
    let server = Arc::new(TestServer::builder().extension(mount).start().await);
    let expected = "change = [{ route = '/{x}', kind = 'changed', pointer = '/a' }]";
    let shadow = Shadow { expected: expected.parse().unwrap(), ..endless() };
    let new = Candidate { shadow: Some(shadow), ..candidate(json(r#"{"a":2}"#)) };
    let swapping = begin_as(&server, "/ext/a", new).await;
    let mount = server.registry.at("/ext/a").unwrap();
    server.get("/chains").await;
    server.get("/ext/a/b").await;
    let tally = || {
        mount.status().candidate.and_then(|candidate| candidate.shadow).map(|shadow| shadow.tally)
    };
    let is_expected = || tally().is_none_or(|tally| tally.expected == 1);
    until("the change is expected", is_expected).await;
    server.get("/ext/a/b/c").await;
    let report = ended(swapping).await;
    let SwapOutcome::Rejected { message, .. } = &report.outcome else { panic!("{report:?}") };
    assert!(message.contains("GET /b/c: body /a: 1 -> 2; "), "{message}");
    assert_eq!(report.shadow.unwrap().requests, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_swap_ends_its_shadow() {
    let old = json("{}");
    let server = Arc::new(server(&old, &patient()).await);
    let swapping = begin(&server, component::noted(&old, "new"), endless()).await;
    swapping.abort();
    let is_over = || {
        server.api().status().candidate.is_none() && server.api().try_lock_deployment().is_some()
    };
    until("the shadow has ended", is_over).await;
    server.get("/a").await.check(200, "{}");
    let trial = Candidate { dry_run: true, ..candidate(json("1")) };
    assert_ne!(server.swap_as(trial).await.steps.len(), 0, "the next one begins");
}
