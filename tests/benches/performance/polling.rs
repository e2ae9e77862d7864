//! The time to the first requested chain behind a slow relayer, and the requests that the
//! relayer gets while clients send as many as they can.

use std::time::{Duration, Instant};

use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::program::Program;
use relayer_rest_tests::relayer::{Relayer, Script};
use tokio::runtime::Runtime;

use crate::in_process::{micros, ratio};
use crate::report::{Report, Target};

/// The time in which a relayer handles one request.
const TICK: Duration = Duration::from_millis(500);

const CHAINS: usize = 40;
const STARTS: usize = 5;
const LOAD: Duration = Duration::from_secs(20);

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    let mut times: Vec<_> = (0..STARTS).map(|_| runtime.block_on(first_chain())).collect();
    let time = quantile(&mut times, 0.5);
    let what = "first requested chain of 40, to a response of the relayer";
    report.add(what, (micros(time), micros(TICK)), ratio(time, TICK), Target::AtMost(4.0));
    let (requests, served) = runtime.block_on(requests_under_load());
    let what = "requests to the relayer under load, to seconds";
    let seconds = LOAD.as_secs_f64();
    let pair = (format!("{requests} of {served}"), format!("{seconds}"));
    report.add(what, pair, f64::from(requests) / seconds, Target::AtMost(1.0));
}

fn relayer() -> Relayer {
    let mut script = Script { tick: TICK, ..Script::of_1_13() };
    let chain = script.chains[0].clone();
    script.chains = (0..CHAINS)
        .map(|number| {
            let mut chain = chain.clone();
            chain["id"] = format!("ibc-{number}").into();
            chain
        })
        .collect();
    Relayer::start(script)
}

/// Returns the time from the first request for the last chain to its configuration.
async fn first_chain() -> Duration {
    let relayer = relayer();
    let serving = Program::server().args(["--upstream", &relayer.url()]).start().await;
    let start = Instant::now();
    let mut client = serving.connect().await;
    client.get_until("/chain/ibc-39", |response| response.status == 200).await;
    start.elapsed()
}

/// Returns how many requests the relayer got, of how many that clients sent, once all
/// chains are known.
async fn requests_under_load() -> (u32, u64) {
    let relayer = relayer();
    let serving = Program::server().args(["--upstream", &relayer.url()]).start().await;
    let mut client = serving.connect().await;
    for number in 0..CHAINS {
        let chain = format!("/chain/ibc-{number}");
        client.get_until(&chain, |response| response.status == 200).await;
    }
    let count = || relayer.seen().paths.values().sum::<u32>();
    let before = count();
    let start = Instant::now();
    let mut served = 0;
    while start.elapsed() < LOAD {
        assert_eq!(client.get("/state").await.status, 200);
        served += 1;
    }
    (count() - before, served)
}
