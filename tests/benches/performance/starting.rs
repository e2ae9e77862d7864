//! The time from the start of the command to the line with its address, when its code is
//! compiled already.

use std::time::{Duration, Instant};

use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::program::Program;
use tokio::runtime::Runtime;

use crate::in_process::{micros, ratio};
use crate::report::{Report, Target};

const STARTS: usize = 25;
const MAX: Duration = Duration::from_millis(50);

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    let start = |more: &[&str]| {
        let start = Instant::now();
        drop(runtime.block_on(Program::server().args(more).start()));
        start.elapsed()
    };
    let kept = ["--code-cache", cache];
    start(&kept);
    let mut warm = Vec::new();
    let mut cold = Vec::new();
    for _ in 0..STARTS {
        warm.push(start(&kept));
        cold.push(start(&["--no-code-cache"]));
    }
    let warm = quantile(&mut warm, 0.5);
    let cold = quantile(&mut cold, 0.5);
    let what = "start to address on the sample, compiled code kept";
    report.add(what, (micros(warm), micros(MAX)), ratio(warm, MAX), Target::AtMost(1.0));
    let what = "start to address on the sample, compiled code kept, to not";
    report.add(what, (micros(warm), micros(cold)), ratio(warm, cold), Target::None);
}
