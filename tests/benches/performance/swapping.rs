//! The latency of `/chains` on a quiet server, and while modules are compiled and swapped
//! one after the other without a pause.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::registry::SwapOutcome;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate};

use crate::cores::Runtimes;
use crate::in_process::{micros, ratio};
use crate::publishing::clients;
use crate::report::{Report, Target};

/// The number of rounds. In each, both take turns; the median round counts.
const ROUNDS: usize = 3;

pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let server = Arc::new(runtimes.serve(TestServer::start));
    runtimes.load(async || clients(&server).await);
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(runtimes, &server)).collect();
    rounds.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let round = &rounds[ROUNDS / 2];
    let swaps = round.swaps_a_second;
    let what = format!("p99 of /chains while {swaps:.1} modules are swapped a second");
    let shown = |(p50, p99)| format!("{} (p50 {})", micros(p99), micros(p50));
    let figures = (shown(round.busy), shown(round.quiet));
    report.add(what, figures, round.ratio(), Target::AtMost(1.5));
}

/// The median and the 99th percentile on a quiet server and during swaps.
struct Round {
    quiet: (Duration, Duration),
    busy: (Duration, Duration),
    swaps_a_second: f64,
}

impl Round {
    fn ratio(&self) -> f64 {
        ratio(self.busy.1, self.quiet.1)
    }
}

fn round(runtimes: &Runtimes, server: &Arc<TestServer>) -> Round {
    let quiet = runtimes.load(async || clients(server).await);
    let done = Arc::new(AtomicBool::new(false));
    let swapping = runtimes.spawn(swap_on(Arc::clone(server), Arc::clone(&done)));
    let start = Instant::now();
    let busy = runtimes.load(async || clients(server).await);
    let seconds = start.elapsed().as_secs_f64();
    done.store(true, Relaxed);
    let swaps = runtimes.load(async || swapping.await.unwrap());
    Round { quiet, busy, swaps_a_second: f64::from(swaps) / seconds }
}

async fn swap_on(server: Arc<TestServer>, done: Arc<AtomicBool>) -> u32 {
    for swaps in 0.. {
        if done.load(Relaxed) {
            return swaps;
        }
        let note = format!("{swaps}{}", fastrand::u64(..));
        let new = component::noted(DEFAULT_MODULE, &note);
        assert_eq!(server.swap_as(candidate(new)).await.outcome, SwapOutcome::Swapped);
    }
    unreachable!("it ends with the clients")
}
