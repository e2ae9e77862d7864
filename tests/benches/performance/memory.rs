//! The peak memory of the command while it serves the sample under load.

use std::time::Duration;

use relayer_rest_tests::load::Load;
use relayer_rest_tests::measure::peak_memory_of;
use relayer_rest_tests::program::Program;
use tokio::runtime::Runtime;

use crate::report::{Report, Target};

const MAX: u64 = 40 << 20;

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    let serving = runtime.block_on(Program::server().start());
    let paths = ["/version", "/chains", "/chain/ibc-0", "/state"].map(str::to_owned).to_vec();
    let load = Load { paths, connections: 64, ..Load::new("", Duration::from_secs(5)) };
    let served = load.run(serving.address());
    let peak = peak_memory_of(serving.id());
    #[expect(clippy::cast_precision_loss)]
    let ratio = peak as f64 / MAX as f64;
    let what = format!("memory at most, sample, 64 connections, {:.0}/s", served.per_second);
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    report.add(what, (mib(peak), mib(MAX)), ratio, Target::AtMost(1.0));
}
