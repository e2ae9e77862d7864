//! A server between the host and Hermes that records the requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use crate::http::{Response, try_get};

type Requests = Arc<Mutex<Vec<(Instant, String)>>>;

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    requests: Requests,
    // Dropped, it stops the server.
    _runtime: Runtime,
}

impl Proxy {
    /// Starts a proxy that forwards requests to a server.
    #[must_use]
    pub fn start(server: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Requests::default();
        let recorded = Arc::clone(&requests);
        runtime.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let recorded = Arc::clone(&recorded);
                tokio::spawn(async move {
                    let service =
                        service_fn(move |request| forward(server, Arc::clone(&recorded), request));
                    let builder = Builder::new(TokioExecutor::new());
                    // The host may close the connection at any time.
                    builder.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self { address, requests, _runtime: runtime }
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the times and paths of the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<(Instant, String)> {
        self.requests.lock().unwrap().clone()
    }
}

async fn forward(
    server: SocketAddr,
    requests: Requests,
    request: Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    requests.lock().unwrap().push((Instant::now(), path.clone()));
    let response = spawn_blocking(move || try_get(server, &path)).await.unwrap();
    let (status, body) = response.map_or((502, String::new()), Response::content);
    let mut forwarded = hyper::Response::new(Full::from(body));
    *forwarded.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(forwarded)
}
