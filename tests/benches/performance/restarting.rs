//! The latency of `/chains` while the server is restarted 50 times, by takeover and with a socket
//! of a service manager, and the requests that fail.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::program::{Program, Serving};
use relayer_rest_tests::steady_clients::SteadyClients;
use rustix::process::Signal;

use crate::cores::Runtimes;
use crate::in_process::{micros, ratio};
use crate::report::{Report, Target};

const RESTARTS: usize = 50;
/// The responses before each restart: each client waits once for a restart, and half a percent
/// of the requests are these.
const RESPONSES: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(2);

/// Restarts a server.
trait Restart {
    async fn restart(&self, old: Serving) -> Serving;
}

struct Takeover(Program);

impl Restart for Takeover {
    async fn restart(&self, old: Serving) -> Serving {
        let new = self.0.clone().args(["--takeover"]).start().await;
        assert_eq!(old.ended().await.status, Some(0));
        new
    }
}

/// With a socket that stays open.
struct Activation(Program);

impl Restart for Activation {
    async fn restart(&self, old: Serving) -> Serving {
        old.signal(Signal::TERM);
        assert_eq!(old.ended().await.status, Some(0));
        self.0.clone().start().await
    }
}

pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let program = Program::server();
    let first = runtimes.serve(async || program.clone().start().await);
    let address = first.address();
    add(report, runtimes, "takeovers", (address, first), &Takeover(program));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let program = Program::new(["serve"]).listening_on(&listener);
    let first = runtimes.serve(async || program.clone().start().await);
    let name = "restarts with a socket of a service manager";
    add(report, runtimes, name, (address, first), &Activation(program));
}

fn add(
    report: &mut Report,
    runtimes: &Runtimes,
    name: &str,
    (address, first): (SocketAddr, Serving),
    way: &(impl Restart + Sync),
) {
    let clients = runtimes.load(async || SteadyClients::start(address, PAUSE));
    let progress = || runtimes.load(async || clients.progress(RESPONSES).await);
    let mut serving = first;
    let mut quiet = Vec::new();
    let mut busy = Vec::new();
    // Both take turns, since the machine may be busy with something else.
    progress();
    for _ in 0..RESTARTS {
        drop(clients.take_times());
        progress();
        quiet.extend(clients.take_times());
        serving = runtimes.serve(async || way.restart(serving).await);
        progress();
        busy.extend(clients.take_times());
    }
    let failures = runtimes.load(async || clients.end().await).len();
    runtimes.serve(async || serving.stop().await);
    let requests = busy.len();
    let ratio = ratio(quantile(&mut busy, 0.99), quantile(&mut quiet, 0.99));
    let shown = |times: &mut Vec<Duration>| {
        let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|part| micros(quantile(times, part)));
        format!("{p99} (p50 {p50}, longest {longest})")
    };
    let figures = (shown(&mut busy), shown(&mut quiet));
    let what = format!("p99 of /chains during {RESTARTS} {name}");
    report.add(what, figures, ratio, Target::AtMost(2.0));
    let what = format!("failed requests during {RESTARTS} {name}, of {requests}");
    #[expect(clippy::cast_precision_loss)]
    report.add(what, (failures, 0), failures as f64, Target::AtMost(0.0));
}
