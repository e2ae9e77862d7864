//! The events of a stream, as an `EventSource` of a browser reads them.

use std::io::Write;

use flate2::write::GzDecoder;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::Value;

use crate::client::Client;
use crate::wait::within;

/// A stream of events.
pub struct Events {
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The time after which the client connects again, in milliseconds, if the server set it.
    pub retry: Option<u64>,
    body: Incoming,
    decoder: Option<GzDecoder<Vec<u8>>>,
    unread: String,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: String,
}

impl Events {
    /// Opens the stream of a path, with further headers.
    ///
    /// # Panics
    ///
    /// Panics if the response is not a stream.
    pub async fn open(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::try_open(client, path, headers).await.unwrap()
    }

    /// Opens the stream of a path, with further headers.
    ///
    /// # Errors
    ///
    /// Returns the status of the response if that is another one.
    ///
    /// # Panics
    ///
    /// Panics if a success is not a stream.
    pub async fn try_open(
        client: &mut Client,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, StatusCode> {
        let headers = [&[("accept", "text/event-stream")], headers].concat();
        let begin = client.begin("GET", path, &headers);
        let response = within(&format!("a stream of {path}"), begin).await.unwrap();
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        Ok(Self::of(response))
    }

    /// Reads a response that is a stream.
    ///
    /// # Panics
    ///
    /// Panics if it is another one.
    #[must_use]
    pub fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.status(), 200, "{:?}", response.headers());
        let (head, body) = response.into_parts();
        assert_eq!(head.headers["content-type"], "text/event-stream");
        let decoder = head.headers.get("content-encoding").map(|encoding| {
            assert_eq!(encoding, "gzip");
            GzDecoder::new(Vec::new())
        });
        Self { headers: head.headers, retry: None, body, decoder, unread: String::new() }
    }

    /// Returns the next event; `None` at the end of the stream.
    ///
    /// # Panics
    ///
    /// Panics if the stream is invalid.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let block = within("the next event", self.next_block()).await?;
            let mut event = Event { id: None, name: "message".to_owned(), data: String::new() };
            let mut data = Vec::new();
            for line in block.lines() {
                match line.split_once(": ").unwrap_or((line, "")) {
                    ("id", id) => event.id = Some(id.to_owned()),
                    ("event", name) => name.clone_into(&mut event.name),
                    ("data" | "data:", text) => data.push(text),
                    ("retry", time) => self.retry = Some(time.parse().unwrap()),
                    (":", _) => {}
                    other => panic!("unexpected line {other:?}"),
                }
            }
            if !data.is_empty() {
                event.data = data.join("\n");
                return Some(event);
            }
        }
    }

    /// Returns the next block of lines, which may be a comment; `None` at the end of the stream.
    ///
    /// # Panics
    ///
    /// Panics if the stream ends within a block.
    pub async fn next_block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.find("\n\n") {
                let block = self.unread[..end].to_owned();
                self.unread.drain(..end + 2);
                return Some(block);
            }
            let Some(frame) = self.body.frame().await else {
                assert_eq!(self.unread, "", "the stream ends within an event");
                if let Some(decoder) = &mut self.decoder {
                    decoder.try_finish().expect("the checksum is right");
                }
                return None;
            };
            let mut data = frame.unwrap().into_data().unwrap().to_vec();
            if let Some(decoder) = &mut self.decoder {
                decoder.write_all(&data).unwrap();
                decoder.flush().unwrap();
                data = std::mem::take(decoder.get_mut());
            }
            self.unread.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

impl Event {
    /// Returns the data as JSON.
    ///
    /// # Panics
    ///
    /// Panics if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}
