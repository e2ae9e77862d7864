//! Bare hyper with constant responses:
//! `peer-hyper per-core|multi-thread ADDRESS FOLDER`.
//!
//! The folder has a file with the body of each path, such as `chains`, and one with the
//! headers of its response, `chains.headers`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

type Responses = HashMap<String, (HeaderMap, Bytes)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, address, folder] = &arguments[..] else {
        return Err("usage: peer-hyper per-core|multi-thread ADDRESS FOLDER".into());
    };
    let address: SocketAddr = address.parse()?;
    // Leaked, so that requests on different threads share no reference counts.
    let responses: &'static Responses = Box::leak(Box::new(read(Path::new(folder))?));
    let cores = thread::available_parallelism()?.get();
    match mode.as_str() {
        "per-core" => {
            let threads: Vec<_> = (0..cores)
                .map(|_| {
                    let socket = listen(address)?;
                    let runtime = Builder::new_current_thread().enable_all().build()?;
                    Ok(thread::spawn(move || runtime.block_on(serve(socket, responses))))
                })
                .collect::<Result<_, std::io::Error>>()?;
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")??;
            }
        }
        "multi-thread" => {
            let runtime = Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(serve(listen(address)?, responses))?;
        }
        _ => return Err(format!("unknown mode {mode}").into()),
    }
    Ok(())
}

/// Returns the responses in a folder, by path.
fn read(folder: &Path) -> Result<Responses, Box<dyn Error>> {
    let mut responses = Responses::new();
    for name in ["chains", "state"] {
        let mut headers = HeaderMap::new();
        for line in fs::read_to_string(folder.join(format!("{name}.headers")))?.lines() {
            let (name, value) = line.split_once(": ").ok_or("headers: a line without a colon")?;
            // Constants, so that copies of them do not allocate.
            let value = HeaderValue::from_static(value.to_owned().leak());
            headers.insert(HeaderName::try_from(name)?, value);
        }
        let body = Bytes::from_static(fs::read(folder.join(name))?.leak());
        responses.insert(format!("/{name}"), (headers, body));
    }
    Ok(responses)
}

/// Listens on an address that several sockets share.
fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

async fn serve(
    socket: std::net::TcpListener,
    responses: &'static Responses,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(move |request: Request<_>| async move {
            let mut response = Response::new(Full::default());
            if let Some((headers, body)) = responses.get(request.uri().path()) {
                *response.headers_mut() = headers.clone();
                *response.body_mut() = Full::new(body.clone());
            } else {
                *response.status_mut() = hyper::StatusCode::NOT_FOUND;
            }
            Ok::<_, Infallible>(response)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
