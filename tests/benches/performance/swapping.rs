//! Serving while modules are swapped, one after the other without a pause, each
//! of them compiled: how long clients wait for `/chains`, and on a quiet server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use relayer_rest_host::module::DEFAULT_MODULE;
use relayer_rest_host::registry::Outcome;
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, candidate};
use tokio::runtime::Runtime;

use crate::in_process::{micros, ratio};
use crate::publishing::clients;
use crate::report::{Report, Target};

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    runtime.block_on(async {
        let server = Arc::new(TestServer::of_sample().await);
        clients(&server).await;
        let quiet = clients(&server).await;
        let done = Arc::new(AtomicBool::new(false));
        let swapping = tokio::spawn(swap_on(Arc::clone(&server), Arc::clone(&done)));
        let start = Instant::now();
        let busy = clients(&server).await;
        let seconds = start.elapsed().as_secs_f64();
        done.store(true, Relaxed);
        let swaps = f64::from(swapping.await.unwrap());
        let what =
            format!("p99 of /chains while {:.1} modules are swapped a second", swaps / seconds);
        let shown = |(p50, p99)| format!("{} (p50 {})", micros(p99), micros(p50));
        report.add(what, (shown(busy), shown(quiet)), ratio(busy.1, quiet.1), Target::AtMost(1.5));
    });
}

async fn swap_on(server: Arc<TestServer>, done: Arc<AtomicBool>) -> u32 {
    for swaps in 0.. {
        if done.load(Relaxed) {
            return swaps;
        }
        let new = component::noted(DEFAULT_MODULE, &swaps.to_string());
        assert_eq!(server.swap_as(candidate(new)).await.outcome, Outcome::Exchanged);
    }
    unreachable!("it ends with the clients")
}
