//! A client of the API.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A time-out that only a server without any response reaches.
const TIMEOUT: Duration = Duration::from_mins(10);

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Response {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut values = headers.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value)
    }

    /// Returns the status and the body, which are equal for equal responses.
    #[must_use]
    pub fn content(self) -> (u16, String) {
        (self.status, self.body)
    }
}

/// A connection to a server.
pub struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to a server.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { address, stream: BufReader::new(stream) })
    }

    /// Returns the response to a GET request.
    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send("GET", path, "")
    }

    /// Returns the response to a request without a body. Each header ends its line.
    pub fn send(&mut self, method: &str, path: &str, headers: &str) -> io::Result<Response> {
        let host = self.address;
        let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let invalid = || io::Error::other(format!("not a response with a length: {head:?}"));
        let status = status.ok_or_else(invalid)?;
        let mut response = Response { status, head: head.clone(), body: String::new() };
        let length = response.header("content-length").and_then(|length| length.parse().ok());
        let length = if method == "HEAD" { Some(0) } else { length };
        let mut body = vec![0; length.ok_or_else(invalid)?];
        self.stream.read_exact(&mut body)?;
        response.body = String::from_utf8(body).map_err(io::Error::other)?;
        Ok(response)
    }
}

/// Returns the response to a GET request, over a connection of its own.
pub fn try_get(address: SocketAddr, path: &str) -> io::Result<Response> {
    Client::connect(address)?.get(path)
}

/// Returns the response to a GET request, over a connection of its own.
#[must_use]
pub fn get(address: SocketAddr, path: &str) -> Response {
    try_get(address, path).unwrap_or_else(|error| panic!("GET {path} at {address}: {error}"))
}

/// Returns the response to a request without a body, over a connection of its own. Each header
/// ends its line.
#[must_use]
pub fn send(address: SocketAddr, method: &str, path: &str, headers: &str) -> Response {
    let response = Client::connect(address).and_then(|mut to| to.send(method, path, headers));
    response.unwrap_or_else(|error| panic!("{method} {path} at {address}: {error}"))
}
