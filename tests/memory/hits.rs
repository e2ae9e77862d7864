//! How many allocations does a hit take?

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use relayer_rest_tests::bare_hyper;
use relayer_rest_tests::heap::Heap;
use relayer_rest_tests::server::TestServer;
use tokio::runtime::Runtime;

const REQUEST: &[u8] = b"GET /chains HTTP/1.1\r\nhost: localhost\r\n\r\n";

const REQUESTS: usize = 10_000;

/// The requests after which a response is cached and copied, and buffers have their size.
const WARM_UP: usize = 1_000;

pub(super) fn a_hit_allocates_no_more_than_bare_hyper(heap: &Heap) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(TestServer::builder().start());
    let bare = runtime.block_on(bare_hyper::start(server.address, "/chains"));
    let [ours, bare] = [server.address, bare].map(|address| allocations(heap, address));
    println!("allocations of {REQUESTS} hits: {ours}, of bare hyper: {bare}");
    // Ids are made for 64 requests at once. Other threads allocate, too, but far less often than
    // once for each hit.
    assert!(ours < bare + REQUESTS / 2, "{ours} allocations, and {bare} of bare hyper");
}

/// Returns the allocations for requests on one connection.
fn allocations(heap: &Heap, address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(REQUEST).unwrap();
    let mut buffer = [0; 4096];
    let mut size = 0;
    while !buffer[..size].ends_with(b"]}") {
        let count = stream.read(&mut buffer[size..]).unwrap();
        assert!(count > 0, "{}", buffer[..size].escape_ascii());
        size += count;
    }
    assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", buffer[..size].escape_ascii());
    let mut send = |requests| {
        for _ in 0..requests {
            stream.write_all(REQUEST).unwrap();
            stream.read_exact(&mut buffer[..size]).unwrap();
        }
    };
    send(WARM_UP);
    heap.allocations_of(|| send(REQUESTS))
}
