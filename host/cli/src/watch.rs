//! `relayer-rest watch`: prints the changes of a response.
//!
//! | file | job |
//! |---|---|
//! | `watch/event_parser.rs` | parses the stream of events |

mod event_parser;

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Args;
use relayer_rest_common::backoff::Backoff;
use serde::de::IgnoredAny;
use serde_json::Value;
use tracing::warn;
use ureq::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderName, HeaderValue, StatusCode};
use ureq::{Agent, Body};
use url::Url;

use super::explain::header;
use super::{CommandOutcome, Failure};
use event_parser::{Block, Event, EventParser};

/// The time without a byte after which a connection is regarded as lost: the server sends a
/// comment every 20 seconds.
const SILENCE: Duration = Duration::from_mins(1);

/// The number of streams in a row without a byte after which no more are opened: each keeps a
/// thread and a connection.
const MAX_SILENT: u32 = 3;

/// The time for a connection.
const CONNECT: Duration = Duration::from_secs(10);

const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// The longest time that a server can request before the next connection.
const MAX_REQUESTED: Duration = Duration::from_hours(1);

/// The number of bytes that are read at once.
const PART: usize = 64 << 10;

/// The maximum size of an error response, in bytes.
const MAX_ERROR: u64 = 64 << 10;

#[derive(Args)]
pub(super) struct WatchArgs {
    /// URL of the response, such as <http://127.0.0.1:3000/state>
    url: String,
    /// Print a change as a patch (RFC 6902 or 7386) if that is shorter than half of the body
    #[arg(long)]
    patch: bool,
    /// Header of the request, such as `authorization: Bearer TOKEN`; can be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

/// A response to watch.
struct Watched {
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    agent: Agent,
    silence: Duration,
}

/// The output so far, over all connections.
#[derive(Debug, Default)]
struct Printed {
    /// The id of the last event.
    last_id: Option<String>,
    /// Whether the last state was stale.
    is_stale: bool,
}

/// Why a stream has ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// It can be opened again, after this time if the server has set one.
    Lost { reason: String, retry: Option<Duration> },
    /// It had neither an event nor a comment.
    Silent,
    /// The output is closed.
    Closed,
}

/// Why a stream was not opened.
enum NotOpened {
    /// The server may have room later, after this time if it has set one.
    Refused { reason: String, retry: Option<Duration> },
    /// The connection failed. It may be a restart of a server that was reached before.
    Unreachable(String),
    /// The response at the URL is not a stream.
    Absent(String),
}

pub(super) fn run(args: &WatchArgs) -> Result<CommandOutcome, Failure> {
    let url = Url::parse(&args.url).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    let url = url.ok_or_else(|| {
        let url = &args.url;
        format!("URL {url:?}: not one of HTTP; expected such as http://127.0.0.1:3000/state")
    })?;
    let mut headers =
        vec![(HeaderName::from_static("accept"), HeaderValue::from_static("text/event-stream"))];
    if args.patch {
        headers.push((HeaderName::from_static("prefer"), HeaderValue::from_static("patch")));
    }
    for line in &args.headers {
        let (name, value) = header(line)?;
        let name =
            HeaderName::try_from(name).map_err(|error| format!("header {line:?}: {error}"))?;
        let value =
            HeaderValue::try_from(value).map_err(|error| format!("header {line:?}: {error}"))?;
        headers.push((name, value));
    }
    let agent = agent(&url)?;
    Watched { url, headers, agent, silence: SILENCE }.watch()?;
    Ok(CommandOutcome::Done)
}

fn agent(url: &Url) -> Result<Agent, Failure> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(SILENCE));
    if url.scheme() == "https" {
        config = config.tls_config(relayer_rest_oci::tls()?);
    }
    Ok(config.build().into())
}

impl Watched {
    /// Prints the changes until the output is closed.
    fn watch(&self) -> Result<(), Failure> {
        let mut backoff = Backoff::new(MIN_RETRY, MAX_RETRY);
        let mut printed = Printed::default();
        let mut is_known = false;
        let mut silent = 0;
        loop {
            let (reason, retry) = match self.open(printed.last_id.as_deref()) {
                Ok(stream) => {
                    is_known = true;
                    backoff.reset();
                    let ended = follow(&read(stream)?, &mut printed, self.silence)?;
                    silent = if ended == Ended::Silent { silent + 1 } else { 0 };
                    match ended {
                        Ended::Lost { reason, retry } => (reason, retry),
                        Ended::Silent if silent < MAX_SILENT => (no_byte(self.silence), None),
                        Ended::Silent => {
                            let message = "no event; check that no proxy buffers the stream";
                            return Err(format!("{}: {message}", self.url).into());
                        }
                        Ended::Closed => return Ok(()),
                    }
                }
                Err(NotOpened::Refused { reason, retry }) => (reason, retry),
                Err(NotOpened::Unreachable(reason)) if is_known => (reason, None),
                Err(NotOpened::Unreachable(reason) | NotOpened::Absent(reason)) => {
                    return Err(format!("{}: {reason}", self.url).into());
                }
            };
            let wait = delay(retry, &mut backoff);
            warn!("{}: {reason}; connecting again in {:.1} s", self.url, wait.as_secs_f64());
            thread::sleep(wait);
        }
    }

    /// Opens the stream.
    fn open(&self, last_id: Option<&str>) -> Result<Body, NotOpened> {
        let mut request = self.agent.get(self.url.as_str());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let unreachable = |error| NotOpened::Unreachable(format!("{error}; check the address"));
        let response = request.call().map_err(unreachable)?;
        let (head, mut body) = response.into_parts();
        let text =
            |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let is_stream = text(CONTENT_TYPE).is_some_and(|it| it.starts_with("text/event-stream"));
        if head.status.is_success() && is_stream {
            return Ok(body);
        }
        if head.status.is_success() {
            let message = "not a stream of events; check that relayer-rest serves it, and that no proxy removes the header accept";
            return Err(NotOpened::Absent(message.to_owned()));
        }
        let retry = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
        let retry = retry.map(Duration::from_secs);
        let body = body.with_config().limit(MAX_ERROR).read_to_string().unwrap_or_default();
        let reason = format!("{}: {}", head.status, message(&body));
        if head.status == StatusCode::TOO_MANY_REQUESTS || head.status.is_server_error() {
            return Err(NotOpened::Refused { reason, retry });
        }
        Err(NotOpened::Absent(reason))
    }
}

/// Reads a body on a thread of its own, which a silent server keeps until the end of the process.
fn read(body: Body) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, parts) = mpsc::sync_channel(1);
    let mut reader = body.into_reader();
    let forward = move || {
        let mut buffer = vec![0; PART];
        loop {
            let part = reader.read(&mut buffer).map(|count| buffer[..count].to_vec());
            let is_last = part.as_ref().map_or(true, Vec::is_empty);
            if sender.send(part).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name("stream".to_owned()).spawn(forward)?;
    Ok(parts)
}

/// Prints the events of a stream until it ends.
fn follow(
    parts: &Receiver<io::Result<Vec<u8>>>,
    printed: &mut Printed,
    silence: Duration,
) -> Result<Ended, Failure> {
    let mut parser = EventParser::after(printed.last_id.clone());
    let mut is_silent = true;
    let mut first = First::Unknown;
    loop {
        let reason = match parts.recv_timeout(silence) {
            Ok(Ok(bytes)) if !bytes.is_empty() => {
                is_silent = false;
                for block in parser.add(&bytes)? {
                    // A connection begins with a state that is confirmed, unless it tells otherwise.
                    if first.is_confirmed_before(&block)
                        && std::mem::take(&mut printed.is_stale)
                        && !print(&confirmed(printed.last_id.clone()))?
                    {
                        return Ok(Ended::Closed);
                    }
                    let Block::Event(event) = block else { continue };
                    printed.see(&event);
                    if !print(&event)? {
                        return Ok(Ended::Closed);
                    }
                }
                continue;
            }
            Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => {
                "the server has ended the stream".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(RecvTimeoutError::Timeout) if is_silent => return Ok(Ended::Silent),
            Err(RecvTimeoutError::Timeout) => no_byte(silence),
        };
        return Ok(Ended::Lost { reason, retry: parser.retry });
    }
}

/// The first state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Unknown,
    /// The connection began with a failure, which tells nothing about the state.
    Failure,
    /// It was confirmed, or stale.
    Known,
}

impl First {
    /// Returns whether the next block shows that the first state is confirmed.
    fn is_confirmed_before(&mut self, block: &Block) -> bool {
        let name = match block {
            Block::Comment => "",
            Block::Event(event) => &event.name,
        };
        let before = std::mem::replace(self, Self::Known);
        match (before, name) {
            (Self::Known, _) => false,
            (_, "failed") | (Self::Failure, "") => {
                *self = Self::Failure;
                false
            }
            (_, name) => ["", "change", "patch"].contains(&name),
        }
    }
}

impl Printed {
    /// Records an event.
    fn see(&mut self, event: &Event) {
        self.last_id.clone_from(&event.id);
        match &*event.name {
            "stale" => self.is_stale = true,
            "confirmed" => self.is_stale = false,
            _ => {}
        }
    }
}

/// Returns the event of a state that its source confirms again.
fn confirmed(id: Option<String>) -> Event {
    Event { name: "confirmed".to_owned(), data: "{}".to_owned(), id }
}

/// Returns the time before the next connection, which the server may have requested.
fn delay(requested: Option<Duration>, backoff: &mut Backoff) -> Duration {
    requested.map_or_else(|| backoff.next_delay(), |requested| requested.min(MAX_REQUESTED))
}

fn no_byte(silence: Duration) -> String {
    format!("no byte for {} s", silence.as_secs())
}

/// Prints an event as a line of JSON. Returns whether the output is open.
fn print(event: &Event) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", line(event)).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true),
    }
}

/// Returns an event as JSON in one line. Its data is JSON if it is valid, or else a text.
fn line(Event { name, data, id }: &Event) -> String {
    // Numbers keep their digits. A line feed in JSON is only between tokens.
    let data = match serde_json::from_str::<IgnoredAny>(data) {
        Ok(_) => data.replace(['\n', '\r'], " "),
        Err(_) => Value::from(&**data).to_string(),
    };
    let id = Value::from(id.as_deref());
    format!(r#"{{"event":{},"id":{id},"data":{data}}}"#, Value::from(&**name))
}

/// Returns the message of an error response, or the start of its body.
fn message(body: &str) -> String {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| json["result"]["msg"].as_str());
    message.map_or_else(|| body.chars().take(200).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{
        Agent, Backoff, Block, Ended, Event, First, MAX_REQUESTED, MAX_RETRY, MAX_SILENT,
        MIN_RETRY, Printed, Url, Watched, delay, follow, line,
    };
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    const SILENCE: Duration = Duration::from_millis(10);

    #[test]
    fn a_server_cannot_delay_the_next_connection_for_ever() {
        let mut backoff = Backoff::new(MIN_RETRY, MAX_RETRY);
        assert!(delay(None, &mut backoff) <= MAX_RETRY);
        let minute = Duration::from_mins(1);
        assert_eq!(delay(Some(minute), &mut backoff), minute);
        assert_eq!(delay(Some(Duration::MAX), &mut backoff), MAX_REQUESTED);
    }

    #[test]
    fn a_comment_shows_that_a_stream_is_not_buffered() {
        let (sender, parts) = mpsc::sync_channel(1);
        let mut printed = Printed::default();
        assert_eq!(follow(&parts, &mut printed, SILENCE).unwrap(), Ended::Silent);
        sender.send(Ok(b":\n\n".to_vec())).unwrap();
        let ended = follow(&parts, &mut printed, SILENCE).unwrap();
        assert_eq!(ended, Ended::Lost { reason: "no byte for 0 s".to_owned(), retry: None });
    }

    #[test]
    fn a_state_is_confirmed_by_a_connection_that_does_not_begin_with_its_age() {
        for (blocks, confirmed_at) in [
            (&["", "change"][..], Some(0)),
            (&["change", ""], Some(0)),
            (&["patch"], Some(0)),
            (&["stale", "change", "confirmed", "change"], None),
            (&["failed", "", "failed", "change", "change"], Some(3)),
            (&["failed", "stale", "change"], None),
        ] {
            let mut first = First::Unknown;
            let is_confirmed = |name: &&str| {
                let event = Event { name: (*name).to_owned(), ..Event::default() };
                let block = if name.is_empty() { Block::Comment } else { Block::Event(event) };
                first.is_confirmed_before(&block)
            };
            let confirmed: Vec<_> = blocks.iter().map(is_confirmed).collect();
            let place = confirmed.iter().position(|is_confirmed| *is_confirmed);
            assert_eq!(place, confirmed_at, "{blocks:?}");
            let count = confirmed.iter().filter(|is_confirmed| **is_confirmed).count();
            assert_eq!(count, usize::from(place.is_some()), "{blocks:?}");
        }
    }

    #[test]
    fn the_connection_after_one_with_a_stale_state_confirms_it() {
        let (sender, parts) = mpsc::sync_channel(2);
        let mut printed = Printed { is_stale: true, ..Printed::default() };
        sender.send(Ok(b"event: failed\nid:\ndata: 1\n\n".to_vec())).unwrap();
        follow(&parts, &mut printed, SILENCE).unwrap();
        assert!(printed.is_stale, "a failure tells nothing");
        sender.send(Ok(b":\n\n".to_vec())).unwrap();
        follow(&parts, &mut printed, SILENCE).unwrap();
        assert!(!printed.is_stale);
        sender.send(Ok(b"event: stale\ndata: 1\n\n".to_vec())).unwrap();
        follow(&parts, &mut printed, SILENCE).unwrap();
        assert!(printed.is_stale);
    }

    #[test]
    fn silent_streams_are_not_opened_forever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let accept = |_| {
                let (mut socket, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(&socket).lines();
                while !lines.next().unwrap().unwrap().is_empty() {}
                socket.write_all(head).unwrap();
                socket
            };
            (0..MAX_SILENT).map(accept).collect::<Vec<_>>()
        });
        let agent = Agent::new_with_defaults();
        let watched = Watched { url: url.clone(), headers: Vec::new(), agent, silence: SILENCE };
        let error = watched.watch().unwrap_err().to_string();
        assert_eq!(error, format!("{url}: no event; check that no proxy buffers the stream"));
        assert_eq!(server.join().unwrap().len(), 3);
    }

    #[test]
    fn an_event_is_one_line_of_json() {
        let event = |data: &str, id: Option<&str>| Event {
            name: "change".to_owned(),
            data: data.to_owned(),
            id: id.map(str::to_owned),
        };
        for (event, expected) in [
            (event("{\n 1}", None), r#"{"event":"change","id":null,"data":"{\n 1}"}"#),
            (event("[1,\n2]", Some("\"a\"")), r#"{"event":"change","id":"\"a\"","data":[1, 2]}"#),
            (
                event("123456789012345678901234567890", None),
                r#"{"event":"change","id":null,"data":123456789012345678901234567890}"#,
            ),
        ] {
            assert_eq!(line(&event), expected);
        }
    }
}
