//! The access log: a line for each request, or for a sample of them.
//!
//! | file | job |
//! |---|---|
//! | `access_log/file.rs` | the file, which can be opened again |
//! | `access_log/queue.rs` | the bound of the waiting lines |

mod file;
mod queue;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Version};
use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_server::config::{AccessLogConfig, AccessLogFormat};
use relayer_rest_server::{Exchange, RequestObservation, RequestObserver};
use serde_json::json;
use tracing::warn;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

pub(super) use file::AccessLogError;
use file::{LogFile, Writer};
use queue::{MAX_WAITING_LINES, Queue};

/// The maximum length of a value from the request in a line, in bytes, escaped.
const MAX_VALUE: usize = 2 << 10;

/// Marks the end of a truncated value.
const TRUNCATED: char = '…';

/// The status of a request that its client has cancelled, as in nginx.
const CANCELLED: u16 = 499;

/// The running access log. Dropped, it writes the waiting lines.
pub(super) struct AccessLog {
    file: Arc<LogFile>,
    lines: Arc<Lines>,
    _guard: WorkerGuard,
}

/// Writes the lines.
struct Lines {
    writer: NonBlocking,
    format: AccessLogFormat,
    sample: u32,
    queue: Arc<Queue>,
    warnings: LogRate,
}

/// Chooses the requests that have lines.
struct Observer(Arc<Lines>);

/// A request that will have a line.
struct Line(Arc<Lines>);

impl AccessLog {
    /// Opens the access log, if the settings have a file.
    pub(super) fn open(config: &AccessLogConfig) -> Result<Option<Self>, AccessLogError> {
        let Some(path) = config.file.clone() else { return Ok(None) };
        let file = Arc::new(LogFile::open(path)?);
        let queue = Arc::new(Queue::default());
        let (writer, guard) = NonBlockingBuilder::default()
            // One more for the message that ends the thread.
            .buffered_lines_limit(MAX_WAITING_LINES + 1)
            .thread_name("access-log")
            .finish(Writer::new(Arc::clone(&file), Arc::clone(&queue)));
        let lines = Lines {
            queue,
            writer,
            format: config.format,
            sample: config.sample,
            warnings: LogRate::new(1),
        };
        Ok(Some(Self { file, lines: Arc::new(lines), _guard: guard }))
    }

    /// Checks that a server could open the access log, without creating its file.
    pub(super) fn check(config: &AccessLogConfig) -> Result<(), AccessLogError> {
        config.file.as_deref().map_or(Ok(()), file::check)
    }

    /// Returns the observer that writes the lines.
    pub(super) fn observer(&self) -> Arc<dyn RequestObserver> {
        Arc::new(Observer(Arc::clone(&self.lines)))
    }

    /// Returns the function that opens the file again, for `logrotate`.
    pub(super) fn reopen(&self) -> impl Fn() -> Result<(), AccessLogError> + Send + Sync + 'static {
        let file = Arc::clone(&self.file);
        move || file.reopen()
    }
}

impl RequestObserver for Observer {
    fn begin(&self, _: SystemTime, _: &HeaderMap) -> Option<Box<dyn RequestObservation>> {
        let Self(lines) = self;
        let is_in_sample = lines.sample <= 1 || fastrand::u32(..lines.sample) == 0;
        is_in_sample.then(|| Box::new(Line(Arc::clone(lines))) as _)
    }
}

impl RequestObservation for Line {
    fn end(self: Box<Self>, exchange: &Exchange) {
        self.0.write(exchange);
    }
}

impl Lines {
    fn write(&self, exchange: &Exchange) {
        let line = match self.format {
            AccessLogFormat::Combined => combined(exchange),
            AccessLogFormat::Json => in_json(exchange),
        };
        if self.queue.reserve(line.len()) {
            // The line is one message for the thread that writes.
            drop(self.writer.clone().write_all(line.as_bytes()));
        }
        if self.queue.has_lost()
            && let Permit::Granted(_) = self.warnings.acquire(1)
        {
            self.report_lost();
        }
    }

    /// Logs the number of lines that were lost since the last report.
    fn report_lost(&self) {
        let lost = self.queue.take_lost();
        if lost > 0 {
            warn!(
                lost,
                "lines of the access log lost: its file is written too slowly; raise access-log.sample, or use a faster disk"
            );
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.lines.report_lost();
    }
}

fn client(exchange: &Exchange) -> String {
    exchange.client.map_or_else(|| "unix:".to_owned(), |client| client.to_string())
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

fn status(exchange: &Exchange) -> u16 {
    exchange.response.as_ref().map_or(CANCELLED, |response| response.status.as_u16())
}

/// Returns a line in the combined log format of Apache and nginx.
fn combined(exchange: &Exchange) -> String {
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let date = httpdate::fmt_http_date(exchange.time);
    let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
    let length = exchange.response.as_ref().map_or(0, |response| response.length);
    let quoted = |value: &Option<HeaderValue>| {
        value.as_ref().map_or_else(|| "-".to_owned(), |value| escape(value.as_bytes()))
    };
    format!(
        "{} - - [{day}/{month}/{year}:{time} +0000] \"{} {} {}\" {} {length} \"{}\" \"{}\"\n",
        client(exchange),
        escape(exchange.method.as_str().as_bytes()),
        escape(exchange.target.to_string().as_bytes()),
        version(exchange.version),
        status(exchange),
        quoted(&exchange.referer),
        quoted(&exchange.user_agent),
    )
}

/// Escapes the bytes that would end a value or a line, like nginx.
fn escape(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len().min(MAX_VALUE));
    for byte in value {
        let before = text.len();
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                // Writing to a text cannot fail.
                _ = write!(text, "\\x{byte:02X}");
            }
            byte => text.push(char::from(*byte)),
        }
        if text.len() > MAX_VALUE {
            text.truncate(before);
            text.push(TRUNCATED);
            break;
        }
    }
    text
}

/// Returns the text of a value for a JSON object.
fn for_json(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let mut length = 0;
    for (start, character) in text.char_indices() {
        length += match character {
            '"' | '\\' => 2,
            '\0'..='\x1f' => r"\u0000".len(),
            character => character.len_utf8(),
        };
        if length > MAX_VALUE {
            return format!("{}{TRUNCATED}", &text[..start]);
        }
    }
    text.into_owned()
}

/// Returns a line with a JSON object.
fn in_json(exchange: &Exchange) -> String {
    let text = |value: &Option<HeaderValue>| value.as_ref().map(|value| for_json(value.as_bytes()));
    let response = exchange.response.as_ref();
    let handling = response.and_then(|response| response.handling.as_ref());
    let cache = handling.map(|handling| handling.origin.cache_result());
    let mut line = json!({
        "time": humantime::format_rfc3339_micros(exchange.time).to_string(),
        "id": response.and_then(|response| text(&response.id)),
        "client": client(exchange),
        "tls": exchange.has_tls,
        "method": for_json(exchange.method.as_str().as_bytes()),
        "target": for_json(exchange.target.to_string().as_bytes()),
        "version": version(exchange.version),
        "host": text(&exchange.host),
        "referer": text(&exchange.referer),
        "user_agent": text(&exchange.user_agent),
        "status": status(exchange),
        "bytes": response.map_or(0, |response| response.length),
        "duration_seconds": exchange.duration.as_secs_f64(),
        "mount": handling.map(|handling| handling.mount.as_str()),
        "module": response.and_then(|response| text(&response.module)),
        "route": handling.and_then(|handling| handling.route.as_deref()),
        "cache": cache,
    })
    .to_string();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::{MAX_VALUE, escape, for_json};

    #[test]
    fn ends_of_values_and_lines_are_escaped() {
        assert_eq!(escape(b"/a?b=%20"), "/a?b=%20");
        assert_eq!(escape(b"a\"b\\c\n\xff\x7f"), "a\\x22b\\x5Cc\\x0A\\xFF\\x7F");
    }

    #[test]
    fn values_are_truncated_after_escaping() {
        let most = "a".repeat(MAX_VALUE);
        for truncate in [escape, for_json] {
            assert_eq!(truncate(most.as_bytes()), most);
            assert_eq!(truncate(format!("{most}a").as_bytes()), format!("{most}…"));
        }
        let bytes = [b'"'; MAX_VALUE];
        assert_eq!(escape(&bytes), format!("{}…", "\\x22".repeat(MAX_VALUE / 4)));
        assert_eq!(for_json(&bytes), format!("{}…", "\"".repeat(MAX_VALUE / 2)));
        // A value that ends within a character, and one with a byte that is not a text.
        assert_eq!(for_json("é".repeat(MAX_VALUE).as_bytes()), "é".repeat(MAX_VALUE / 2) + "…");
        assert_eq!(for_json(b"a\xff"), "a\u{fffd}");
    }
}
