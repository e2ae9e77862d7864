//! Servers that are bare hyper with a constant response: the baselines of a hit.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::certificates::Issued;
use crate::client::Client;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Starts a server that responds to all requests with the headers and body of another
/// server's response for a path.
pub async fn start(other: SocketAddr, path: &str) -> SocketAddr {
    let fixed = fixed(other, path).await;
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(respond(stream, Arc::clone(&fixed)));
        }
    });
    address
}

/// Starts a server as [`start`] does, with TLS.
pub async fn start_tls(other: SocketAddr, path: &str, issued: &Issued) -> SocketAddr {
    let fixed = fixed(other, path).await;
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![issued.der()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (acceptor, fixed) = (acceptor.clone(), Arc::clone(&fixed));
            tokio::spawn(async move {
                respond(acceptor.accept(stream).await.unwrap(), fixed).await;
            });
        }
    });
    address
}

/// Responds to each request of a connection.
async fn respond(stream: impl AsyncRead + AsyncWrite + Unpin, fixed: Arc<(HeaderMap, Bytes)>) {
    let service = service_fn(move |_: Request<_>| {
        let mut response = Response::new(Full::new(fixed.1.clone()));
        *response.headers_mut() = fixed.0.clone();
        async { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
}

/// Returns the headers and the body of another server's response for a path.
async fn fixed(other: SocketAddr, path: &str) -> Arc<(HeaderMap, Bytes)> {
    let response = Client::http1(other).await.get(path).await;
    let mut headers = response.headers;
    // Hyper sets these itself.
    headers.remove(DATE);
    headers.remove(CONTENT_LENGTH);
    // Constants, so that sending them does not touch reference counts.
    for value in headers.values_mut() {
        *value = HeaderValue::from_static(value.to_str().unwrap().to_owned().leak());
    }
    let body = Bytes::from_static(response.body.to_vec().leak());
    Arc::new((headers, body))
}
