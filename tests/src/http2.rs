//! Hand-made HTTP/2 frames, which no library would send.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The client connection preface.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of a HEADERS frame, which opens a stream.
pub const HEADERS: u8 = 1;
/// The type of a `WINDOW_UPDATE` frame.
pub const WINDOW_UPDATE: u8 = 8;
/// The type of a SETTINGS frame.
pub const SETTINGS: u8 = 4;

/// The flags of HEADERS for a request without a body, in one frame: `END_STREAM` and
/// `END_HEADERS`.
pub const WHOLE: u8 = 0x5;

/// Builds a frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload is short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Builds the settings of a client whose streams have an initial window of 0 bytes.
#[must_use]
pub fn closed_window() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])
}

/// Encodes the headers of a request, `GET` or `HEAD`, without the dynamic table.
#[must_use]
pub fn request(method: &str, path: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    // By their indices in the static table: method, scheme, authority and path.
    for (name, value) in [(2, method), (6, "http"), (1, "x"), (4, path)] {
        headers.push(name);
        headers.push(u8::try_from(value.len()).expect("a value is short"));
        headers.extend(value.as_bytes());
    }
    headers
}

/// Opens a connection that requests all paths at once and keeps its window closed.
pub async fn stalled(address: SocketAddr, paths: impl Iterator<Item = String>) -> TcpStream {
    let mut bytes = [PREFACE, &closed_window()].concat();
    for (number, path) in (0..).zip(paths) {
        bytes.extend(frame(HEADERS, WHOLE, 2 * number + 1, &request("GET", &path)));
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may have closed the connection already.
    stream.write_all(&bytes).await.ok();
    stream
}
