//! A client of the API: one connection for each request.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A time-out that only a server without any response reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

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

/// Returns the response to a GET request.
pub fn try_get(address: SocketAddr, path: &str) -> io::Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    parse(&response).ok_or_else(|| io::Error::other(format!("not a whole response: {response:?}")))
}

fn parse(response: &str) -> Option<Response> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let response = Response { status, head: head.to_owned(), body: body.to_owned() };
    let length: usize = response.header("content-length")?.parse().ok()?;
    (length == response.body.len()).then_some(response)
}

/// Returns the response to a GET request.
#[must_use]
pub fn get(address: SocketAddr, path: &str) -> Response {
    try_get(address, path).unwrap_or_else(|error| panic!("GET {path} at {address}: {error}"))
}
