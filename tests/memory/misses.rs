//! How much memory does a miss take while it waits to run?

use std::net::SocketAddr;

use relayer_rest_host::module::{Limits, RunPermit};
use relayer_rest_tests::heap::Heap;
use relayer_rest_tests::http2::stalled;
use relayer_rest_tests::server::{TestServer, patient};
use relayer_rest_tests::wait::until;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// The charge of a stream in `http.unsent`, in bytes (`send_admission.rs`).
const STREAM: usize = 12 << 10;

const CONNECTIONS: usize = 16;

const STREAMS: usize = 60;

pub(super) fn a_pending_miss_takes_no_more_than_its_charge(heap: &Heap) {
    let runtime = Runtime::new().unwrap();
    let limits = Limits {
        concurrency: 1,
        queue: (2 * CONNECTIONS * STREAMS).try_into().unwrap(),
        ..patient()
    };
    let server = runtime.block_on(TestServer::builder().limits(&limits).start());
    let module = server.api().module().unwrap();
    let _only = runtime.block_on(RunPermit::acquire(&module)).unwrap();
    let waiting = |count| {
        runtime.block_on(until("all requests wait", || module.engine().load().waiting == count));
    };
    let mut connections = runtime.block_on(connect(server.address, 0, 1));
    waiting(CONNECTIONS);
    let growth = heap.growth_of(|| {
        connections.extend(runtime.block_on(connect(server.address, 1, STREAMS)));
        waiting(CONNECTIONS + CONNECTIONS * STREAMS);
    });
    let each = growth / (CONNECTIONS * STREAMS);
    println!("a pending miss: {each} bytes, with its part of a connection");
    assert!(each <= STREAM, "{each} bytes");
}

/// Opens connections with this many requests each, all with different paths.
async fn connect(address: SocketAddr, round: usize, streams: usize) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for connection in 0..CONNECTIONS {
        let paths = (0..streams).map(move |stream| format!("/{round}-{connection}-{stream}"));
        connections.push(stalled(address, paths).await);
    }
    connections
}
