//! How much processor time and memory does the host cost inside Hermes while no client sends
//! requests? `tests/hermes/run --release --bench idle` compares it with the original.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use relayer_rest_hermes_tests::api::workers;
use relayer_rest_hermes_tests::hermes::{Build, Hermes};
use relayer_rest_hermes_tests::node::Nodes;
use relayer_rest_hermes_tests::wait::until;

/// The time that each sample takes.
const SAMPLE: Duration = Duration::from_secs(30);
const SAMPLES: usize = 6;
/// The unit of the times of processes, in each second.
const TICKS: f64 = 100.0;

fn main() {
    // Both have nodes of their own, so that neither waits for the other.
    let [original, patched] = [Build::Original, Build::Patched].map(|build| {
        let nodes = Nodes::start();
        nodes.open_channel(0);
        let mut hermes = Hermes::start(build, &nodes);
        // From the second start on, compiled modules are there.
        hermes.restart();
        until("the clients have workers", || workers(hermes.address(), "Client") == 2);
        let process = hermes.process();
        (nodes, hermes, process)
    });
    println!("Hermes while no client sends requests, samples of {} s", SAMPLE.as_secs());
    println!("{:>22} {:>22} {:>22}", "processor, % of a core", "anonymous, MiB", "resident, MiB");
    println!("{}", "   original    drop-in".repeat(3));
    // The first sample has the end of the start.
    for sample in 0..=SAMPLES {
        let starts = [original.2, patched.2].map(processor_time);
        let start = Instant::now();
        sleep(SAMPLE);
        let elapsed = start.elapsed().as_secs_f64();
        let ends = [original.2, patched.2].map(processor_time);
        let shares = [0, 1].map(|index| 100.0 * (ends[index] - starts[index]) / elapsed);
        let anonymous = [original.2, patched.2].map(|process| memory(process, "RssAnon"));
        let resident = [original.2, patched.2].map(|process| memory(process, "VmRSS"));
        if sample > 0 {
            for value in [shares, anonymous, resident].as_flattened() {
                print!("{value:>11.2}");
            }
            println!();
        }
    }
}

/// Returns the processor time of a process so far, in seconds.
fn processor_time(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    ticks.map(Result::unwrap).sum::<f64>() / TICKS
}

/// Returns a value of the status of a process, in MiB.
fn memory(process: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kibibytes = line.and_then(|value| value.trim().strip_suffix(" kB"));
    kibibytes.unwrap().parse::<f64>().unwrap() / 1024.0
}
