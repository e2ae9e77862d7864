//! `relayer-rest doctor`: would `serve` with these options work well on this machine? Each
//! problem has a remedy.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytesize::ByteSize;
use clap::Args;
use procfs::{Current, Meminfo};
use relayer_rest_common::threads;
use relayer_rest_server::config::{Config, Place, Settings, UnknownVariable};
use relayer_rest_server::control::{AdminListener, ControlSocket, default_folder};
use relayer_rest_server::reload::MountSpec;
use relayer_rest_state::{Snapshot, SourceKind, StatePublisher};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::access_log::AccessLog;
use super::mounts::{self, CheckedMount};
use super::serve_error::ServeError;
use super::settings::SettingArgs;
use super::sockets;
use super::sources::Sources;
use super::{CommandOutcome, Failure, block_on, code_cache, descriptors, log, print, print_json};

/// The time in which the sources that are polled must respond or fail.
const SOURCE_TIME: Duration = Duration::from_secs(10);
/// The interval in which they are looked at.
const INTERVAL: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    serve: SettingArgs,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    /// The problem and its remedy, or the fact that was found.
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    /// The server works, but not as well as it could.
    Warning,
    /// The server does not start, or does not serve the relayer's state.
    Failure,
}

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

pub(super) fn run(args: &DoctorArgs) -> Result<CommandOutcome, Failure> {
    let mut findings = Findings::default();
    let settings = findings.settings(&args.serve);
    let config = &settings.config;
    findings.modules(config);
    findings.tokens(config);
    block_on(async { findings.admin(config) })?;
    block_on(findings.sources(&settings))?;
    findings.log_level(&settings);
    findings.access_log(config);
    findings.code_cache(config);
    block_on(async { findings.sockets(config) })?;
    findings.open_files(config);
    findings.threads();
    if let Ok(memory) = Meminfo::current() {
        findings.swap(memory.swap_total.saturating_sub(memory.swap_free));
    }
    let installed = env::current_exe().and_then(fs::metadata).and_then(|meta| meta.modified());
    findings.clock(SystemTime::now(), installed.ok());
    let findings = findings.0;
    if args.json {
        print_json(&findings)?;
    } else {
        print(&findings.iter().map(Finding::line).collect::<Vec<_>>())?;
    }
    let has_failed = findings.iter().any(|finding| finding.level == Level::Failure);
    Ok(if has_failed { CommandOutcome::Rejected } else { CommandOutcome::Done })
}

impl Finding {
    fn line(&self) -> String {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Failure => "FAILED",
        };
        format!("{level:<8} {:<13} {}", self.check, self.message)
    }
}

impl Findings {
    fn add(&mut self, check: &'static str, level: Level, message: impl Into<String>) {
        self.0.push(Finding { check, level, message: message.into() });
    }

    /// Adds a fact, or the problem as a failure.
    fn result(&mut self, check: &'static str, result: Result<String, impl ToString>) {
        match result {
            Ok(fact) => self.add(check, Level::Ok, fact),
            Err(problem) => self.add(check, Level::Failure, problem.to_string()),
        }
    }

    /// Reads the settings. If the file is invalid, the other checks leave it out.
    fn settings(&mut self, args: &SettingArgs) -> Settings {
        let read = args.layers().and_then(|layers| {
            for UnknownVariable { name, meant } in layers.unknown_variables() {
                let meant = meant.as_deref().map(|meant| format!("; did you mean {meant}?"));
                let message = format!("{name} is not a setting{}", meant.unwrap_or_default());
                self.add("environment", Level::Warning, message);
            }
            let Some(file) = layers.file() else { return layers.read() };
            let read = layers.read();
            self.result("settings", read.as_ref().map(|_| file.display().to_string()));
            read.or_else(|_| layers.without_file().read())
        });
        match read {
            Ok(settings) => settings,
            Err(error) => {
                self.add("settings", Level::Failure, error.to_string());
                Settings::default()
            }
        }
    }

    /// Loads each module, which also reserves the address space of its instances.
    fn modules(&mut self, config: &Config) {
        // The cache has a finding of its own.
        let code_cache = code_cache::open(&config.code_cache).ok().flatten();
        for CheckedMount { spec, result, .. } in &mounts::check(config, code_cache.as_ref()) {
            let MountSpec { path, name, .. } = spec;
            let result = result.as_ref().map(|digest| format!("{path} {name}@{}", digest.short()));
            self.result("module", result);
        }
    }

    fn tokens(&mut self, config: &Config) {
        if config.commands.clear_packets {
            let read = config.commands.read_tokens();
            self.result("tokens", read.map(|_| "those of [commands]".to_owned()));
        }
    }

    /// Listens on the admin address for a moment, and reads its tokens.
    ///
    /// Must be called within a Tokio runtime.
    fn admin(&mut self, config: &Config) {
        match AdminListener::bind(&config.admin) {
            Ok(None) => {}
            Ok(Some(admin)) => self.add("admin", Level::Ok, admin.address().to_string()),
            Err(error) => self.add("admin", Level::Failure, error.to_string()),
        }
    }

    /// Opens the sources, and waits for a response of each that is polled.
    async fn sources(&mut self, settings: &Settings) {
        let publisher = StatePublisher::new();
        let mut sources = match Sources::open(settings, &publisher) {
            Ok(sources) => sources,
            Err(error) => return self.add("source", Level::Failure, error.to_string()),
        };
        self.address(&settings.config, &sources).await;
        let upstream = sources.upstream.take().map(|source| source.run(publisher.clone()));
        let telemetry = sources.telemetry.take().map(|source| source.run(publisher.clone()));
        let polled = [upstream.is_some(), telemetry.is_some()];
        let tasks = [upstream.map(tokio::spawn), telemetry.map(tokio::spawn)];
        let known = |snapshot: &Snapshot| {
            let sources = snapshot.sources().value();
            sources.len() >= polled.iter().filter(|is_polled| **is_polled).count()
                && sources
                    .iter()
                    .all(|source| source.last_response().is_some() || source.failure.is_some())
        };
        let end = Instant::now() + SOURCE_TIME;
        while !known(&publisher.reader().snapshot()) && Instant::now() < end {
            sleep(INTERVAL).await;
        }
        tasks.into_iter().flatten().for_each(|task| task.abort());
        for source in publisher.reader().snapshot().sources().value() {
            let name = format!("{} {}", source.kind, source.location);
            let name = name.trim_end();
            match (&source.failure, source.last_response()) {
                (Some(failure), _) => {
                    let message = format!(
                        "{name}: {}; start the relayer, or correct the address",
                        failure.message
                    );
                    self.add("source", Level::Failure, message);
                }
                (None, None) => {
                    let message = format!(
                        "{name}: no response within {SOURCE_TIME:?}; start the relayer, or correct the address"
                    );
                    self.add("source", Level::Failure, message);
                }
                (None, Some(_)) if source.kind == SourceKind::Sample => {
                    let message =
                        "a sample is served, not a relayer; use --upstream or --relayer-config";
                    self.add("source", Level::Warning, message);
                }
                (None, Some(_)) => self.add("source", Level::Ok, name),
            }
        }
    }

    /// Listens on the address for a moment.
    async fn address(&mut self, config: &Config, sources: &Sources) {
        let configs = sockets::listen_configs(config, sources);
        let addresses = || configs.iter().map(|config| &config.address);
        let listened = match sockets::check_upstream(addresses(), sources.upstream.as_ref()) {
            Ok(()) => sockets::bind(&configs).await.map(|_| {
                let addresses: Vec<_> = addresses().map(ToString::to_string).collect();
                addresses.join(", ")
            }),
            Err(error) => Err(error),
        };
        self.result("address", listened);
    }

    fn code_cache(&mut self, config: &Config) {
        match code_cache::open(&config.code_cache) {
            Ok(Some(cache)) => {
                self.add("code cache", Level::Ok, cache.folder().display().to_string());
            }
            Ok(None) => self.add(
                "code cache",
                Level::Warning,
                "modules are compiled at each start; choose a folder with --code-cache DIR",
            ),
            Err(error) => self.add("code cache", Level::Failure, error.to_string()),
        }
    }

    fn log_level(&mut self, settings: &Settings) {
        if let Some(level) = &settings.config.log.level {
            let origin = settings.origin("log.level").clone();
            let invalid = |problem| ServeError::LogLevel { origin, problem };
            self.result("log level", log::filter(level).map(|_| level.clone()).map_err(invalid));
        }
    }

    fn access_log(&mut self, config: &Config) {
        if let Some(file) = &config.access_log.file {
            let checked = AccessLog::check(&config.access_log);
            self.result("access log", checked.map(|()| file.display().to_string()));
        }
    }

    /// Finds control sockets of servers that were killed, and listens on the one of the
    /// settings for a moment.
    ///
    /// Must be called within a Tokio runtime.
    fn sockets(&mut self, config: &Config) {
        match &config.control {
            Place::Disabled => {
                return self.add(
                    "control",
                    Level::Warning,
                    "there is no control socket: status, swap and reload do not work; leave out --no-control",
                );
            }
            Place::At(path) if is_stale(path) => self.stale(path),
            Place::At(path) => {
                let listened = ControlSocket::bind(path);
                self.result("control", listened.map(|_| path.display().to_string()));
            }
            Place::Default => {}
        }
        let entries = fs::read_dir(default_folder()).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_socket = path.extension().is_some_and(|extension| extension == "sock");
            let is_configured = matches!(&config.control, Place::At(own) if *own == path);
            if is_socket && !is_configured && is_stale(&path) {
                self.stale(&path);
            }
        }
    }

    /// Adds a socket without a listener.
    fn stale(&mut self, path: &Path) {
        let path = path.display();
        let message = format!("{path}: no server listens on this socket; remove the file");
        self.add("control", Level::Warning, message);
    }

    fn open_files(&mut self, config: &Config) {
        let connections = config.http.connections;
        let bounded = descriptors::bounded(config, config.extension.len() + 1);
        if bounded.connections < connections {
            let message = format!(
                "the limit of open files permits {} connections, not {connections}; raise it with ulimit -n, or with LimitNOFILE in a unit of systemd",
                bounded.connections
            );
            self.add("open files", Level::Warning, message);
        } else {
            self.add("open files", Level::Ok, format!("{connections} connections"));
        }
    }

    fn threads(&mut self) {
        let count = super::server_threads();
        let result = threads::ensure(count).map(|()| format!("{count} more can be created"));
        self.result("threads", result.map_err(|error| {
            format!("{error}; raise the limit of processes (ulimit -u, or pids.max of the control group)")
        }));
    }

    fn swap(&mut self, used: u64) {
        if used > 0 {
            let message = format!(
                "{} of memory are swapped out, which delays requests; give the machine more memory, or disable swap for the service (MemorySwapMax=0)",
                ByteSize::b(used)
            );
            self.add("swap", Level::Warning, message);
        } else {
            self.add("swap", Level::Ok, "none in use");
        }
    }

    /// Compares the clock with the time at which this program was installed.
    fn clock(&mut self, now: SystemTime, installed: Option<SystemTime>) {
        let time = humantime::format_rfc3339_seconds(now);
        if installed.is_some_and(|installed| now < installed) {
            let message = format!(
                "it is {time}, which is before this program was installed; synchronize the clock, such as with `timedatectl set-ntp true`"
            );
            self.add("clock", Level::Warning, message);
        } else {
            self.add("clock", Level::Ok, time.to_string());
        }
    }
}

/// Returns whether a file is a socket that no program listens on.
fn is_stale(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Findings, Level};

    /// Returns the only finding.
    fn finding(check: impl FnOnce(&mut Findings)) -> (&'static str, Level, String) {
        let mut findings = Findings::default();
        check(&mut findings);
        let [finding] = <[_; 1]>::try_from(findings.0).unwrap();
        (finding.check, finding.level, finding.message)
    }

    #[test]
    fn swapped_memory_is_a_warning() {
        assert_eq!(finding(|it| it.swap(0)), ("swap", Level::Ok, "none in use".to_owned()));
        let (check, level, message) = finding(|it| it.swap(3 << 20));
        assert_eq!((check, level), ("swap", Level::Warning));
        assert!(message.starts_with("3.0 MiB of memory are swapped out"), "{message}");
        assert!(message.contains("(MemorySwapMax=0)"), "{message}");
    }

    #[test]
    fn a_clock_before_the_installation_is_a_warning() {
        let installed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let clock = |now| finding(|it| it.clock(now, Some(installed)));
        assert_eq!(clock(installed).1, Level::Ok);
        let (check, level, message) = clock(SystemTime::UNIX_EPOCH);
        assert_eq!((check, level), ("clock", Level::Warning));
        assert!(message.starts_with("it is 1970-01-01T00:00:00Z, which is before"), "{message}");
        assert!(message.contains("synchronize the clock"), "{message}");
        assert_eq!(finding(|it| it.clock(SystemTime::UNIX_EPOCH, None)).1, Level::Ok);
    }
}
