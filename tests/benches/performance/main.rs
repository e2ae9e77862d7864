//! Measures the costs of relayer-rest, each against a baseline in the same run: `cargo
//! bench -p relayer-rest-tests`.
//!
//! Prints a table, and writes it as JSON to `target/performance.json`. `-- misses`,
//! `hits`, `metrics`, `otlp`, `capsules`, `tls`, `memory`, `starting`, `swapping`, `shadowing`, `restarting`, `spinning`,
//! `resetting`, `publishing`, `polling`, `waiting` or `fleet` measures only that, and `developing`, which needs the registries of
//! packages, is only measured so.
//!
//! | file | measurement |
//! |---|---|
//! | `in_process.rs` | a miss, a hit and a publication, without a socket |
//! | `sockets.rs` | hits and misses over sockets, also over TLS, and the cost of metrics, traces and capsules |
//! | `memory.rs` | the memory of the command under load |
//! | `starting.rs` | from the start of the command to its address |
//! | `swapping.rs` | latency during swaps |
//! | `shadowing.rs` | latency during a shadow |
//! | `restarting.rs` | latency and failures while the server is restarted |
//! | `spinning.rs` | latency next to endless, short or large runs of modules |
//! | `resetting.rs` | latency while clients cancel requests |
//! | `publishing.rs` | latency and memory during publications |
//! | `polling.rs` | the first chain behind a slow relayer, and its requests under load |
//! | `waiting.rs` | memory, latency and runs for clients that wait for changes |
//! | `fleet.rs` | latency and bytes for the replicas of a fleet |
//! | `developing.rs` | from `new`, and from the change of a module, to its response |
//! | `relayers.rs` | the served state |
//! | `native.rs`, `servers.rs` | the baselines |
//! | `cores.rs` | the cores and runtimes of servers and loads |
//! | `report.rs` | the table |

mod cores;
mod developing;
mod fleet;
mod in_process;
mod memory;
mod native;
mod polling;
mod publishing;
mod relayers;
mod report;
mod resetting;
mod restarting;
mod servers;
mod shadowing;
mod sockets;
mod spinning;
mod starting;
mod swapping;
mod waiting;

use std::{env, fs};

use cores::Runtimes;
use relayer_rest_host::module::{Limits, Module};
use relayer_rest_tests::cargo::root;
use relayer_rest_tests::server::engine;
use report::Report;

fn main() {
    let only: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |part: &str| only.is_empty() || only.iter().any(|only| only == part);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut report = Report::default();
    println!("{}\n", report::machine());
    if wanted("memory") {
        memory::measure(&mut report, &runtime);
    }
    if wanted("misses") {
        let module = Module::embedded(&engine(&Limits::default())).unwrap();
        in_process::measure(&mut report, &runtime, &module);
    }
    if wanted("hits") {
        sockets::measure(&mut report, &Runtimes::new());
    }
    if wanted("metrics") {
        sockets::measure_metrics(&mut report, &Runtimes::new());
    }
    if wanted("otlp") {
        sockets::measure_otlp(&mut report, &Runtimes::new());
    }
    if wanted("capsules") {
        sockets::measure_capsules(&mut report, &Runtimes::new());
    }
    if wanted("tls") {
        sockets::measure_tls(&mut report, &Runtimes::new());
    }
    if wanted("starting") {
        starting::measure(&mut report, &runtime);
    }
    if wanted("swapping") {
        swapping::measure(&mut report, &Runtimes::new());
    }
    if wanted("shadowing") {
        shadowing::measure(&mut report, &Runtimes::new());
    }
    if wanted("restarting") {
        restarting::measure(&mut report, &Runtimes::new());
    }
    if wanted("spinning") {
        spinning::measure(&mut report, &Runtimes::new());
    }
    if wanted("resetting") {
        resetting::measure(&mut report, &Runtimes::new());
    }
    if wanted("publishing") {
        publishing::measure(&mut report, &Runtimes::new());
    }
    if wanted("polling") {
        polling::measure(&mut report, &runtime);
    }
    if wanted("waiting") {
        waiting::measure(&mut report, &runtime);
    }
    if wanted("fleet") {
        fleet::measure(&mut report, &runtime);
    }
    if only.iter().any(|only| only == "developing") {
        developing::measure(&mut report, &runtime);
    }
    // Cargo builds elsewhere if the environment says so.
    let folder = root().join("target");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("performance.json"), format!("{:#}\n", report.json())).unwrap();
}
