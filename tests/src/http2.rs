//! Frames of HTTP/2 as no library would send them.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What a client sends first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The frame that opens a stream.
pub const HEADERS: u8 = 1;
/// The frame that widens a window.
pub const WINDOW_UPDATE: u8 = 8;
/// The frame of settings.
pub const SETTINGS: u8 = 4;

/// The flags of HEADERS for a request without a body, in one frame.
pub const WHOLE: u8 = 0x5;

/// A frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload is short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The settings of a client that takes no body until it says so.
#[must_use]
pub fn closed_window() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])
}

/// The headers of a request, compressed without a table: `GET` or `HEAD`.
#[must_use]
pub fn request(method: &str, path: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    // By the numbers of their names in the static table: method, scheme,
    // authority and path.
    for (name, value) in [(2, method), (6, "http"), (1, "x"), (4, path)] {
        headers.push(name);
        headers.push(u8::try_from(value.len()).expect("a value is short"));
        headers.extend(value.as_bytes());
    }
    headers
}

/// A connection that asks for paths at once and keeps its window closed.
pub async fn stalled(address: SocketAddr, paths: impl Iterator<Item = String>) -> TcpStream {
    let mut bytes = [PREFACE, &closed_window()].concat();
    for (number, path) in (0..).zip(paths) {
        bytes.extend(frame(HEADERS, WHOLE, 2 * number + 1, &request("GET", &path)));
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may be closed already.
    stream.write_all(&bytes).await.ok();
    stream
}
