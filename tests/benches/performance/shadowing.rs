//! The latency of misses without a shadow, and while a candidate runs on all of them.

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
use tokio::runtime::Runtime;

use crate::in_process::{micros, ratio};
use crate::publishing::clients_of;
use crate::report::{Report, Target};

/// The number of rounds. In each, both take turns; the median round counts.
const ROUNDS: usize = 3;

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    runtime.block_on(async {
        let limits = Limits { response_cache: ByteSize::b(0), ..patient() };
        let server = Arc::new(TestServer::builder().limits(&limits).start().await);
        misses(&server, "warm").await;
        let mut rounds = Vec::new();
        for number in 0..ROUNDS {
            rounds.push(round(&server, number).await);
        }
        rounds.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let round = &rounds[ROUNDS / 2];
        let (compared, dropped) = (round.shadow.requests, round.shadow.dropped);
        let what = format!(
            "p99 of misses of /chains while they are shadowed ({compared} compared, {dropped} dropped)"
        );
        let shown = |(p50, p99)| format!("{} (p50 {})", micros(p99), micros(p50));
        let figures = (shown(round.busy), shown(round.quiet));
        report.add(what, figures, round.ratio(), Target::AtMost(1.2));
    });
}

/// The median and the 99th percentile without and with a shadow.
struct Round {
    quiet: (Duration, Duration),
    busy: (Duration, Duration),
    shadow: ShadowReport,
}

impl Round {
    fn ratio(&self) -> f64 {
        ratio(self.busy.1, self.quiet.1)
    }
}

async fn round(server: &Arc<TestServer>, number: usize) -> Round {
    let quiet = misses(server, &format!("quiet-{number}")).await;
    let swapping = tokio::spawn({
        let server = Arc::clone(server);
        let shadow = Some(Shadow::new(ShadowTime::MAX));
        let new = component::noted(DEFAULT_MODULE, &number.to_string());
        async move { server.swap_as(Candidate { shadow, ..candidate(new) }).await }
    });
    let status = || server.api().status().candidate.and_then(|candidate| candidate.shadow);
    until("the shadow begins", || status().is_some()).await;
    let busy = misses(server, &format!("busy-{number}")).await;
    assert!(server.api().cancel_shadow());
    let report = swapping.await.unwrap();
    let reason = Rejection::Cancelled;
    assert!(
        matches!(report.outcome, SwapOutcome::Rejected { reason: found, .. } if found == reason)
    );
    let shadow = report.shadow.expect("there was a shadow");
    assert_eq!(shadow.unexpected, 0, "the modules are equal");
    Round { quiet, busy, shadow }
}

/// Returns the latency of requests of which no two are equal.
async fn misses(server: &TestServer, name: &str) -> (Duration, Duration) {
    clients_of(server, |client, number| format!("/chains?{name}-{client}-{number}")).await
}
