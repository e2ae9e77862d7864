//! The server of a scripted chain, for JSON-RPC and gRPC on one address.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::chain::Chain;
use crate::{grpc, json_rpc};

/// The chains of [`Nodes`].
pub const CHAINS: [&str; 2] = ["ibc-0", "ibc-1"];

type Shared = Arc<Mutex<Chain>>;

/// The nodes of two chains that are connected to each other.
pub struct Nodes {
    chains: [Shared; 2],
    addresses: [SocketAddr; 2],
    // Dropped, they stop the servers.
    runtimes: [Option<Runtime>; 2],
}

impl Nodes {
    /// Starts the nodes.
    #[must_use]
    pub fn start() -> Self {
        let runtimes = [0, 1].map(|_| Runtime::new().unwrap());
        let [first, second] = CHAINS;
        let chains = [Chain::new(first, second), Chain::new(second, first)];
        let chains = chains.map(|chain| Arc::new(Mutex::new(chain)));
        let serve = |index: usize| serve(&runtimes[index], Arc::clone(&chains[index]));
        let addresses = [0, 1].map(serve);
        Self { chains, addresses, runtimes: runtimes.map(Some) }
    }

    /// Returns the address of a chain's node, for JSON-RPC and gRPC.
    #[must_use]
    pub fn address(&self, index: usize) -> SocketAddr {
        self.addresses[index]
    }

    /// Opens a channel on both chains, whose blocks have events of it.
    pub fn open_channel(&self, number: u32) {
        // The events come when both ends are open.
        for chain in &self.chains {
            chain.lock().unwrap().open_channel(number);
        }
        for chain in &self.chains {
            chain.lock().unwrap().confirm_channel(number);
        }
    }

    /// Stops the node of a chain.
    pub fn stop(&mut self, index: usize) {
        drop(self.runtimes[index].take());
    }

    /// Sends a packet from a chain over a channel.
    pub fn send_packet(&self, index: usize, channel: u32) {
        self.chains[index].lock().unwrap().send_packet(channel);
    }
}

/// Starts the server of a chain, and returns its address.
fn serve(runtime: &Runtime, chain: Shared) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let chain = Arc::clone(&chain);
            tokio::spawn(async move {
                let service = service_fn(move |request| respond(Arc::clone(&chain), request));
                let builder = Builder::new(TokioExecutor::new());
                // The relayer may close the connection at any time.
                builder.serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    });
    address
}

async fn respond(
    chain: Shared,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let is_grpc = head
        .headers
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let chain = chain.lock().unwrap();
    if is_grpc {
        return Ok(grpc::respond(&chain, head.uri.path()));
    }
    Ok(Response::new(Full::from(json_rpc::respond(&chain, &body)).boxed()))
}
