//! The header of the PROXY protocol, with which a reverse proxy begins a connection: the
//! address of its client.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use super::connections::Socket;

/// The start of version 2, which is as long as the shortest start of version 1 that is read.
const V2: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The length of the head of version 2, with the length of the rest at its end.
const V2_HEAD: usize = 16;

/// The maximum length of a header of version 1, with its end.
const V1_MAX: usize = 107;

/// The maximum length of a header of version 2 that is accepted: addresses, and what a proxy
/// may add, such as the name of the host.
const V2_MAX: usize = 4 << 10;

/// The pause between two looks at a header of version 1 that is not complete.
const WAIT: Duration = Duration::from_millis(5);

/// The reason why a connection does not begin with a valid header.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyHeaderError {
    #[error("the connection ends before its header is complete: {0}")]
    Io(#[from] io::Error),
    #[error("the header is not one of the PROXY protocol: {0}")]
    Invalid(#[from] proxy_header::Error),
    #[error("the header has more than {V2_MAX} bytes")]
    TooLong,
}

/// Reads the header. Returns the address of the client, or none for a connection of the proxy
/// itself, such as a health check.
pub(super) async fn read(socket: &mut Socket) -> Result<Option<IpAddr>, ProxyHeaderError> {
    let mut header = vec![0; V2.len()];
    socket.read_exact(&mut header).await?;
    if header == V2 {
        header.resize(V2_HEAD, 0);
        socket.read_exact(&mut header[V2.len()..]).await?;
        let rest = usize::from(u16::from_be_bytes([header[V2_HEAD - 2], header[V2_HEAD - 1]]));
        if V2_HEAD + rest > V2_MAX {
            return Err(ProxyHeaderError::TooLong);
        }
        header.resize(V2_HEAD + rest, 0);
        socket.read_exact(&mut header[V2_HEAD..]).await?;
    } else if header.starts_with(b"PROXY ") {
        read_line(socket, &mut header).await?;
    }
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    let (header, _) = ProxyHeader::parse(&header, config)?;
    Ok(header.proxied_address().map(|address| address.source.ip()))
}

/// Reads the rest of a line, and nothing behind it.
async fn read_line(socket: &mut Socket, line: &mut Vec<u8>) -> io::Result<()> {
    while !line.ends_with(b"\n") && line.len() < V1_MAX {
        let mut next = [0; V1_MAX];
        let next = &mut next[..V1_MAX - line.len()];
        let length = socket.peek(next).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = next[..length].iter().position(|byte| *byte == b'\n');
        let read = end.map_or(length, |end| end + 1);
        let start = line.len();
        line.resize(start + read, 0);
        socket.read_exact(&mut line[start..]).await?;
        if end.is_none() {
            sleep(WAIT).await;
        }
    }
    Ok(())
}
