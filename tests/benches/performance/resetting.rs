//! The latency of `/version` on a quiet server, and while clients cancel requests right
//! after sending them.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use relayer_rest_host::module::Limits;
use relayer_rest_tests::client::Client;
use relayer_rest_tests::component;
use relayer_rest_tests::measure::quantile;
use relayer_rest_tests::server::{TestServer, engine, extension};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::cores::{Cores, Runtimes};
use crate::in_process::micros;
use crate::report::{Report, Target};
use crate::spinning::{noise, on_a_thread, watch};

/// The time for which clients cancel requests, longer than the measurement.
const TIME: Duration = Duration::from_secs(7);

/// The number of HTTP/2 connections, the number of requests that each sends before it
/// cancels them, and the number of HTTP/1 clients, which reset a connection for each
/// request.
const CONNECTIONS: usize = 2;
const BATCH: usize = 50;
const CLIENTS: usize = 6;

/// Prefixes of paths, which end with a number: a cached response, a fast one, and one
/// that takes 1.5 ms and depends on the query.
const TARGETS: [&str; 3] = ["/state?", "/chain/", "/ext/slow/a?"];

pub(crate) fn measure(report: &mut Report, runtimes: &Runtimes) {
    let server = runtimes.serve(serve);
    Cores::Load.run(|| beside(report, server.address));
}

fn beside(report: &mut Report, address: SocketAddr) {
    for target in TARGETS {
        for (version, reset) in [("HTTP/2", reset_streams as Reset), ("HTTP/1", reset_connections)]
        {
            let mut quiet = watch(address, "/version");
            let resetting = noise(move || reset(address, target));
            thread::sleep(Duration::from_millis(100));
            let mut watched = watch(address, "/version");
            let count = resetting.join().unwrap();
            let rate = f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / TIME.as_secs_f64();
            // The parts first, since the quantile of the whole sorts all times.
            for (what, p99) in [("median of the p99 of parts", p99_of_parts as P99), ("p99", p99)] {
                let quiet = p99(&mut quiet);
                let watched = p99(&mut watched);
                let more = (watched.as_secs_f64() - quiet.as_secs_f64()) * 1e3;
                let name = format!(
                    "{what} of /version while {rate:.0} requests a second for {target}N are cancelled by {version}; ms more than quiet"
                );
                report.add(name, (micros(watched), micros(quiet)), more, Target::AtMost(5.0));
            }
        }
    }
}

type P99 = fn(&mut [Duration]) -> Duration;

fn p99(times: &mut [Duration]) -> Duration {
    quantile(times, 0.99)
}

/// Returns the median p99 of parts of a quarter of a second. Only few parts are affected
/// when the machine is busy for a moment.
fn p99_of_parts(times: &mut [Duration]) -> Duration {
    let mut parts: Vec<_> = times.chunks_mut(200).map(|part| quantile(part, 0.99)).collect();
    quantile(&mut parts, 0.5)
}

type Reset = fn(SocketAddr, &'static str) -> usize;

async fn serve() -> TestServer {
    let slow = component::that_returns_its_query_after(3_000_000);
    let slow = extension("/ext/slow", &engine(&Limits::default()), &slow);
    TestServer::builder().extension(slow).start().await
}

/// Sends requests, and resets their streams half a millisecond later.
fn reset_streams(address: SocketAddr, target: &'static str) -> usize {
    let reset = move |connection: usize| async move {
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < TIME {
            let mut sender = Client::http2(address).await.http2_sender();
            while start.elapsed() < TIME && sender.ready().await.is_ok() {
                let batch: Vec<_> = (0..BATCH)
                    .map(|_| {
                        count += 1;
                        let uri = format!("http://localhost{target}{connection}x{count}");
                        sender.send_request(Request::get(uri).body(Empty::<Bytes>::new()).unwrap())
                    })
                    .collect();
                sleep(Duration::from_micros(500)).await;
                drop(batch);
            }
        }
        count
    };
    at_once(CONNECTIONS, reset)
}

/// Sends a request on a new connection, and resets the connection.
fn reset_connections(address: SocketAddr, target: &'static str) -> usize {
    let reset = move |client: usize| async move {
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < TIME {
            let Ok(mut stream) = TcpStream::connect(address).await else { continue };
            count += 1;
            let request = format!("GET {target}{client}x{count} HTTP/1.1\r\nhost: x\r\n\r\n");
            drop(stream.write_all(request.as_bytes()).await);
            drop(stream.set_zero_linger());
        }
        count
    };
    at_once(CLIENTS, reset)
}

/// Runs this number of clients at once, and returns the sum of their results.
fn at_once<F: Future<Output = usize> + Send + 'static>(
    clients: usize,
    client: impl Fn(usize) -> F + Send + 'static,
) -> usize {
    on_a_thread(async move {
        let clients: Vec<_> = (0..clients).map(|number| tokio::spawn(client(number))).collect();
        let mut count = 0;
        for client in clients {
            count += client.await.unwrap();
        }
        count
    })
}
