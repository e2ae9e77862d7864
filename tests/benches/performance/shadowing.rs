//! The latency of misses without a shadow, and while a candidate runs on all of them. It is measured
//! twice without one, which shows how much it differs without a cause.

use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use relayer_rest_host::module::{DEFAULT_MODULE, Limits};
use relayer_rest_host::registry::{
    Candidate, Rejection, Shadow, ShadowReport, ShadowTime, SwapOutcome,
};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate, patient};
use relayer_rest_tests::wait::until;

use crate::cores::Runtimes;
use crate::in_process::{micros, ratio};
use crate::publishing::clients_of;
use crate::report::{Report, Target};

/// The number of rounds. In each, all take turns; the median round counts.
const ROUNDS: usize = 7;

pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
    let start = async || TestServer::builder().limits(&limits).start().await;
    let server = Arc::new(runtimes.serve(start));
    runtimes.load(async || misses(&server, "warm").await);
    let rounds: Vec<_> = (0..ROUNDS).map(|number| round(runtimes, &server, number)).collect();
    let compared: u64 = rounds.iter().map(|round| round.shadow.requests).sum();
    let dropped: u64 = rounds.iter().map(|round| round.shadow.dropped).sum();
    let what = format!(
        "p99 of misses of /chains while they are shadowed ({compared} compared, {dropped} dropped)"
    );
    add(report, what, &rounds, |round| (round.busy, round.quiet), Target::AtMost(1.2));
    let what = "p99 of misses of /chains without a shadow, to before the shadow";
    add(report, what.to_owned(), &rounds, |round| (round.after, round.quiet), Target::None);
}

/// A median and a 99th percentile.
type Latency = (Duration, Duration);

/// The latency without a shadow, with one, and without one again.
struct Round {
    quiet: Latency,
    busy: Latency,
    after: Latency,
    shadow: ShadowReport,
}

/// Adds the round with the median ratio of two latencies to the report.
fn add(
    report: &mut Report,
    what: String,
    rounds: &[Round],
    compared: impl Fn(&Round) -> (Latency, Latency),
    target: Target,
) {
    let mut compared: Vec<_> = rounds.iter().map(compared).collect();
    let of_p99 = |&(ours, other): &(Latency, Latency)| ratio(ours.1, other.1);
    compared.sort_by(|a, b| of_p99(a).total_cmp(&of_p99(b)));
    let median = &compared[compared.len() / 2];
    let shown = |(p50, p99)| format!("{} (p50 {})", micros(p99), micros(p50));
    report.add(what, (shown(median.0), shown(median.1)), of_p99(median), target);
}

fn round(runtimes: &Runtimes, server: &Arc<TestServer>, number: usize) -> Round {
    let measure = |name| runtimes.load(async || misses(server, &format!("{name}-{number}")).await);
    let quiet = measure("quiet");
    let swapping = runtimes.spawn({
        let server = Arc::clone(server);
        let shadow = Some(Shadow::new(ShadowTime::MAX));
        let new = component::noted(DEFAULT_MODULE, &number.to_string());
        async move { server.swap_as(Candidate { shadow, ..candidate(new) }).await }
    });
    let status = || server.api().status().candidate.and_then(|candidate| candidate.shadow);
    runtimes.load(async || until("the shadow begins", || status().is_some()).await);
    let busy = measure("busy");
    assert!(server.api().cancel_shadow());
    let report = runtimes.load(async || swapping.await.unwrap());
    let reason = Rejection::Cancelled;
    assert!(
        matches!(report.outcome, SwapOutcome::Rejected { reason: found, .. } if found == reason)
    );
    let shadow = report.shadow.expect("there was a shadow");
    assert_eq!(shadow.unexpected, 0, "the modules are equal");
    let after = measure("after");
    Round { quiet, busy, after, shadow }
}

/// Returns the latency of requests of which no two are equal.
async fn misses(server: &TestServer, name: &str) -> Latency {
    clients_of(server, |client, number| format!("/chains?{name}-{client}-{number}")).await
}
