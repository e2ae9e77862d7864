//! The log: lines on stderr, as text or as JSON. `RUST_LOG` sets the level; by default `info`.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_server::config::{LogConfig, LogFormat};
use relayer_rest_server::control::LogLevel;
use serde_json::json;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, reload};

/// The number of lines that wait if the log is read slowly or not at all. Further lines
/// are lost: nothing waits for the log.
const MAX_WAITING_LINES: usize = 4096;

/// The maximum number of lines of each library per second: clients can provoke warnings
/// of the HTTP library as often as they like.
const MAX_LIBRARY_LINES: u64 = 20;

/// The running log. Dropped, it writes the waiting lines, if the log is read.
pub(super) struct Log {
    _guard: WorkerGuard,
    level: Arc<dyn LogLevel>,
}

/// The directives of the log's level.
struct LogFilter<S>(Handle<EnvFilter, S>);

impl Log {
    /// Returns the level, which can be changed.
    pub(super) fn level(&self) -> Arc<dyn LogLevel> {
        Arc::clone(&self.level)
    }
}

impl<S> LogLevel for LogFilter<S> {
    fn level(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        self.0.reload(filter(level)?).map_err(|error| error.to_string())
    }
}

/// Reads the directives of a level, or returns the problem with them.
pub(super) fn filter(level: &str) -> Result<EnvFilter, String> {
    // A word that is not a level would be a target, and disable the log of all others.
    let words = level.split(',').filter(|word| !word.contains(['=', '[']));
    for word in words.map(str::trim) {
        if word.is_empty() || word.parse::<LevelFilter>().is_err() {
            return Err(format!("{word:?} is not a level"));
        }
    }
    EnvFilter::try_new(level).map_err(|error| error.to_string())
}

/// Starts the log.
pub(super) fn start(config: &LogConfig) -> Result<Log, String> {
    let format = config.format;
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(MAX_WAITING_LINES).finish(io::stderr());
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    let (filter, level) = reload::Layer::new(filter);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(io::stderr().is_terminal())
        // A closed stderr must not end a request, and omitted lines are errors of their
        // format.
        .log_internal_errors(false);
    let layer = match format {
        LogFormat::Text => layer.map_event_format(|inner| RateLimited::new(inner, format)).boxed(),
        LogFormat::Json => layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .map_event_format(|inner| RateLimited::new(inner, format))
            .boxed(),
    };
    tracing_subscriber::registry().with(filter).with(layer).init();
    let level = LogFilter(level);
    if let Some(given) = &config.level {
        level.set_level(given)?;
    }
    Ok(Log { _guard: guard, level: Arc::new(level) })
}

/// A format that omits lines of libraries which log too many.
struct RateLimited<F> {
    inner: F,
    format: LogFormat,
    /// By the name of the library; there are few.
    rates: Mutex<HashMap<&'static str, LogRate>>,
}

impl<F> RateLimited<F> {
    fn new(inner: F, format: LogFormat) -> Self {
        Self { inner, format, rates: Mutex::default() }
    }

    fn acquire(&self, library: &'static str) -> Permit {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.entry(library).or_insert_with(|| LogRate::new(MAX_LIBRARY_LINES)).acquire(1)
    }

    /// Writes a line of this module.
    fn note(&self, writer: &mut Writer<'_>, message: &str) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        match self.format {
            LogFormat::Text => writeln!(writer, "{time}  WARN {}: {message}", module_path!()),
            LogFormat::Json => {
                let line = json!({
                    "timestamp": time,
                    "level": "WARN",
                    "message": message,
                    "target": module_path!(),
                });
                writeln!(writer, "{line}")
            }
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for RateLimited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if let Some(library) = library(event.metadata()) {
            match self.acquire(library) {
                Permit::Granted(0) => {}
                Permit::Granted(count) => {
                    self.note(&mut writer, &format!("{count} log lines of {library} omitted"))?;
                }
                Permit::LimitReached => {
                    let message = format!(
                        "{library} logs more than {MAX_LIBRARY_LINES} lines a second; omitting lines"
                    );
                    return self.note(&mut writer, &message);
                }
                // An event whose format is an error is not written.
                Permit::Denied => return Err(fmt::Error),
            }
        }
        self.inner.format_event(context, writer, event)
    }
}

/// Returns the library of an event whose rate is limited. `debug` and `trace` are not:
/// they are written only if `RUST_LOG` enables them. The crates of this workspace and the
/// logs of modules have limits of their own.
fn library(metadata: &Metadata<'static>) -> Option<&'static str> {
    let name = metadata.target().split("::").next().unwrap_or_default();
    let is_own = name.starts_with("relayer_rest_") || name == "module";
    (*metadata.level() <= Level::INFO && !is_own).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{LogFormat, MAX_LIBRARY_LINES, RateLimited};
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Instant;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_about_omitted_ones_have_the_format_of_the_log() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let layer = layer.log_internal_errors(false).json();
        let layer = layer.map_event_format(|inner| RateLimited::new(inner, LogFormat::Json));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..100 {
                tracing::warn!(target: "flooding::part", "a \"flood\"");
            }
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let lines =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let notes =
            lines.filter(|line| line["target"] == "relayer_rest_cli::log").collect::<Vec<_>>();
        assert!(
            notes[0]["message"].as_str().unwrap().starts_with("flooding logs more than"),
            "{text}"
        );
        assert!(notes[0]["timestamp"].is_string() && notes[0]["level"] == "WARN");
    }

    #[test]
    fn each_library_has_a_limit_of_lines_per_second() {
        const EVENTS: usize = 1000;
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_max_level(tracing::Level::DEBUG)
            .log_internal_errors(false)
            .map_event_format(|inner| RateLimited::new(inner, LogFormat::Text))
            .finish();
        let start = Instant::now();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..EVENTS {
                tracing::warn!(target: "flooding::part", "flood");
                tracing::debug!(target: "flooding::part", "wanted");
                tracing::info!(target: "module", "guest");
                tracing::info!("own");
                tracing::warn!(target: "relayer_rest_server::part", "of another crate");
            }
            tracing::warn!(target: "another", "heard");
        });
        let windows = start.elapsed().as_secs() + 2;
        let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let count = |text: &str| lines.lines().filter(|line| line.ends_with(text)).count();
        let flood = count("WARN flooding::part: flood") as u64;
        assert!((1..=windows * MAX_LIBRARY_LINES).contains(&flood), "{flood} in {windows} s");
        let notes = count("flooding logs more than 20 lines a second; omitting lines");
        assert!((1..=windows).contains(&(notes as u64)), "{notes} in {windows} s");
        for kept in [": wanted", ": guest", ": own", ": of another crate"] {
            assert_eq!(count(kept), EVENTS, "{kept}");
        }
        assert_eq!(count("WARN another: heard"), 1);
    }
}
