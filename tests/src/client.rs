//! A client with one connection.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Request, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::wait::{DEADLINE, until, until_async, within};

/// The time without a request after which a server closes a connection: the default of
/// `http.idle`.
const IDLE: Duration = Duration::from_secs(10);

/// A connection that speaks HTTP.
///
/// It is opened again if the server has closed it for idleness: on a slow machine, a test may
/// take that long between two requests.
pub struct Client {
    connection: Connection,
    address: SocketAddr,
    /// When it was opened, or the last request was sent that has got its response: for the server, it
    /// is idle from a later moment on.
    last_used: Instant,
    /// The shortest time without a request after which the server may close the connection.
    idle: Duration,
}

enum Connection {
    /// HTTP/1.1, one request after the other.
    Http1(http1::SendRequest<Empty<Bytes>>),
    /// HTTP/2 with prior knowledge.
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// A complete response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The version of HTTP.
    pub version: Version,
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Client {
    /// Connects with HTTP/1.1.
    pub async fn http1(address: SocketAddr) -> Self {
        Self::try_http1(address).await.unwrap()
    }

    /// Connects with HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing listens there.
    pub async fn try_http1(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        Ok(Self::new(Connection::http1(stream).await, address))
    }

    /// Connects with HTTP/1.1, from another loopback address.
    pub async fn http1_from(own: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((own, 0).into()).unwrap();
        let stream = socket.connect(address).await.unwrap();
        Self::new(Connection::http1(stream).await, address)
    }

    /// Connects with HTTP/2.
    pub async fn http2(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let builder = http2::Builder::new(TokioExecutor::new());
        Self::new(Connection::http2(&builder, stream).await, address)
    }

    /// Connects with HTTP/2, and sends a PING at this interval, idle or not.
    pub async fn http2_with_pings(address: SocketAddr, every: Duration) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(every).keep_alive_while_idle(true);
        Self::new(Connection::http2(&builder, stream).await, address)
    }

    fn new(connection: Connection, address: SocketAddr) -> Self {
        Self { connection, address, last_used: Instant::now(), idle: IDLE }
    }

    /// Expects that the server may close the connection after this time without a request.
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Returns the sender of this connection.
    ///
    /// # Panics
    ///
    /// Panics if it does not speak HTTP/2.
    #[must_use]
    pub fn http2_sender(&self) -> http2::SendRequest<Empty<Bytes>> {
        match &self.connection {
            Connection::Http1(_) => panic!("it speaks HTTP/1.1"),
            Connection::Http2(sender) => sender.clone(),
        }
    }

    /// Returns another client on the same connection.
    ///
    /// # Panics
    ///
    /// Panics if it does not speak HTTP/2.
    #[must_use]
    pub fn on_same_connection(&self) -> Self {
        Self { connection: Connection::Http2(self.http2_sender()), ..*self }
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(&mut self) {
        match &mut self.connection {
            Connection::Http1(sender) => {
                let is_closed = async || sender.ready().await.is_err() || sender.is_closed();
                until_async("the server closes the connection", is_closed).await;
            }
            Connection::Http2(sender) => {
                until("the server closes the connection", || sender.is_closed()).await;
            }
        }
    }

    /// Sends a GET request for a path.
    pub async fn get(&mut self, path: &str) -> Response {
        self.request("GET", path).await
    }

    /// Repeats a GET request for a path until the response is as wanted.
    ///
    /// # Panics
    ///
    /// Panics with the last response if none is before the [`DEADLINE`].
    pub async fn get_until(&mut self, path: &str, wanted: impl Fn(&Response) -> bool) -> Response {
        let start = Instant::now();
        loop {
            let response = within(&format!("a response to {path}"), self.get(path)).await;
            if wanted(&response) {
                return response;
            }
            assert!(start.elapsed() < DEADLINE, "the last response to {path} is {response:?}");
        }
    }

    /// Requests the state and all chains until each of them is known.
    pub async fn get_until_known(&mut self) {
        self.get_until("/state", |response| response.status == 200).await;
        let chains = self.get_until("/chains", |response| response.status == 200).await;
        let chains: serde_json::Value = serde_json::from_slice(&chains.body).unwrap();
        for id in chains["result"].as_array().unwrap() {
            let path = format!("/chain/{}", id.as_str().unwrap());
            self.get_until(&path, |response| response.status == 200).await;
        }
    }

    /// Sends a request with any method.
    pub async fn request(&mut self, method: &str, path: &str) -> Response {
        self.request_with(method, path, &[]).await
    }

    /// Sends a request with any method and further headers.
    ///
    /// # Panics
    ///
    /// Panics if the server closes the connection, except for idleness.
    pub async fn request_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        loop {
            let last_used = self.last_used;
            let error = match self.try_request_with(method, path, headers).await {
                Ok(response) => return response,
                Err(error) => error,
            };
            let silent = last_used.elapsed();
            assert!(silent >= self.idle, "closed {silent:?} after the last request: {error}");
            let stream = TcpStream::connect(self.address).await.unwrap();
            self.connection = match self.connection {
                Connection::Http1(_) => Connection::http1(stream).await,
                Connection::Http2(_) => {
                    Connection::http2(&http2::Builder::new(TokioExecutor::new()), stream).await
                }
            };
            self.last_used = Instant::now();
        }
    }

    /// Sends a request with any method and further headers.
    ///
    /// # Errors
    ///
    /// Returns an error if the server closes the connection before the end of the
    /// response.
    pub async fn try_request_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> hyper::Result<Response> {
        let sent = Instant::now();
        let (head, body) = self.begin(method, path, headers).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        self.last_used = sent;
        Ok(Response { version: head.version, status: head.status, headers: head.headers, body })
    }

    /// Sends a request with any method and further headers, and returns the response before its
    /// body.
    ///
    /// # Errors
    ///
    /// Returns an error if the server closes the connection before.
    pub async fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> hyper::Result<hyper::Response<Incoming>> {
        let uri = match self.connection {
            Connection::Http1(_) => path.to_owned(),
            Connection::Http2(_) => format!("http://localhost{path}"),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if matches!(self.connection, Connection::Http1(_)) {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).unwrap();
        match &mut self.connection {
            Connection::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Connection::Http2(sender) => sender.send_request(request).await,
        }
    }
}

impl Connection {
    async fn http1(stream: TcpStream) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    async fn http2(builder: &http2::Builder<TokioExecutor>, stream: TcpStream) -> Self {
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }
}

impl Response {
    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns a header's value as text, or an empty text if the header is absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the name of an error, or an empty text if the body is not an error.
    #[must_use]
    pub fn error_name(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["result"]["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Checks the status, that the type is JSON, and the exact body.
    #[track_caller]
    pub fn check(&self, status: u16, body: &str) {
        assert_eq!(self.text(), body);
        assert_eq!(self.status, status);
        assert_eq!(self.header("content-type"), "application/json");
        assert_eq!(self.header("content-length"), body.len().to_string());
    }

    /// Checks that the body is an error with this name and this message.
    #[track_caller]
    pub fn check_error(&self, status: u16, name: &str, msg: &str) {
        let body = format!(r#"{{"status":"error","result":{{"name":"{name}","msg":"{msg}"}}}}"#);
        self.check(status, &body);
    }
}

/// Sends bytes, and reads until the server closes the connection.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut response = Vec::new();
    within("the end of the response", stream.read_to_end(&mut response)).await.unwrap();
    String::from_utf8(response).unwrap()
}
