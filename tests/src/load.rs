//! Load: requests at the highest rate that the server sustains.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use crate::measure::quantile;

/// The time that is not measured, until connections are made, caches are warm and threads
/// are awake.
const WARM_UP: Duration = Duration::from_millis(150);

/// The requests of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// The paths, which each connection requests in turn.
    pub paths: Vec<String>,
    /// Further header lines of each request, with their line ends.
    pub headers: &'static str,
    /// The number of connections, each with one request at a time.
    pub connections: usize,
    /// The measured time.
    pub time: Duration,
    /// The configuration of TLS for `localhost`; none for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
}

/// The measurements of a load.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// Responses per second.
    pub per_second: f64,
    /// The number of all responses, also before the measured time.
    pub responses: u32,
    /// The median time from a request to the end of its response.
    pub p50: Duration,
    /// The 99th percentile of these times.
    pub p99: Duration,
}

/// A connection, plain or encrypted.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Load {
    /// Creates a load of one path on 32 connections.
    #[must_use]
    pub fn new(path: &str, time: Duration) -> Self {
        Self { paths: vec![path.to_owned()], headers: "", connections: 32, time, tls: None }
    }

    /// Sends the requests from a thread of its own.
    ///
    /// # Panics
    ///
    /// Panics if a response has another status than 200.
    #[must_use]
    pub fn run(&self, address: SocketAddr) -> Served {
        let load = self.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(load.send(address))
        })
        .join()
        .unwrap()
    }

    async fn send(self, address: SocketAddr) -> Served {
        let requests: Vec<Vec<u8>> = self
            .paths
            .iter()
            .map(|path| {
                format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", self.headers).into()
            })
            .collect();
        let mut open = Vec::new();
        for _ in 0..self.connections {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let stream: Box<dyn Stream> = match &self.tls {
                None => Box::new(stream),
                Some(config) => {
                    let name = "localhost".try_into().unwrap();
                    let connector = TlsConnector::from(Arc::clone(config));
                    Box::new(connector.connect(name, stream).await.unwrap())
                }
            };
            open.push(stream);
        }
        let start = Instant::now() + WARM_UP;
        let measured = start..start + self.time;
        let mut connections = Vec::new();
        for (number, stream) in open.into_iter().enumerate() {
            let requests = requests.clone();
            let measured = measured.clone();
            connections.push(tokio::spawn(connection(stream, requests, number, measured)));
        }
        let mut times = Vec::new();
        let mut responses = 0;
        for connection in connections {
            let (all, measured) = connection.await.unwrap();
            responses += all;
            times.extend(measured);
        }
        let count = u32::try_from(times.len()).unwrap();
        Served {
            per_second: f64::from(count) / self.time.as_secs_f64(),
            responses,
            p50: quantile(&mut times, 0.5),
            p99: quantile(&mut times, 0.99),
        }
    }
}

/// Returns the number of responses, and the times of the measured ones.
async fn connection(
    mut stream: Box<dyn Stream>,
    requests: Vec<Vec<u8>>,
    first: usize,
    measured: Range<Instant>,
) -> (u32, Vec<Duration>) {
    let mut buffer = vec![0; 256 << 10];
    let mut responses = 0;
    let mut times = Vec::with_capacity(16 << 10);
    for request in requests.iter().cycle().skip(first % requests.len()) {
        let start = Instant::now();
        if start >= measured.end {
            break;
        }
        stream.write_all(request).await.unwrap();
        stream.flush().await.unwrap();
        read_response(&mut stream, &mut buffer).await;
        responses += 1;
        if start >= measured.start {
            times.push(start.elapsed());
        }
    }
    (responses, times)
}

/// Reads one response to its end.
async fn read_response(stream: &mut Box<dyn Stream>, buffer: &mut [u8]) {
    let mut filled = 0;
    let (head, length) = loop {
        let read = stream.read(&mut buffer[filled..]).await.unwrap();
        assert!(read > 0, "the server closed the connection");
        filled += read;
        if let Some(parsed) = head(&buffer[..filled]) {
            break parsed;
        }
    };
    let mut left = (head + length).checked_sub(filled).expect("one response at a time");
    while left > 0 {
        let read = stream.read(buffer).await.unwrap();
        assert!(read > 0, "the server closed the connection");
        left = left.checked_sub(read).expect("one response at a time");
    }
}

/// Returns the lengths of a response's head and body, once the head is complete.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    const LENGTH: &[u8] = b"content-length: ";
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = &bytes[..end];
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", head.escape_ascii());
    let length = head.windows(LENGTH.len()).position(|name| name == LENGTH).unwrap();
    let digits = head[length + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    Some((end, digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))))
}
