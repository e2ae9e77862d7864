//! `relayer-rest doctor`: would `serve` with these options work well on this machine? Each
//! problem has a remedy.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

use bytesize::ByteSize;
use clap::Args;
use procfs::{Current, Meminfo};
use relayer_rest_common::threads;
use relayer_rest_sandbox::Module;
use relayer_rest_server::config::{Config, Place, Settings, UnknownVariable};
use relayer_rest_server::control::{AdminListener, default_folder};
use relayer_rest_server::reload::MountSpec;
use relayer_rest_state::{Snapshot, SourceKind, StatePublisher};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::progress::Progress;
use super::serve;
use super::settings::SettingArgs;
use super::sources::Sources;
use super::{
    CommandOutcome, Failure, block_on, code_cache, compile, descriptors, print, print_json,
};

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
    findings.code_cache(config);
    findings.sockets(config);
    findings.open_files(config);
    findings.threads();
    findings.swap();
    findings.clock();
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
        // All of them stay in memory, as in a server.
        let mut loaded: Vec<Module> = Vec::new();
        let specs = MountSpec::all(config, None);
        let progress = Progress::new(specs.len() as u64);
        for spec in specs {
            let result = compile::load(&spec, &progress).map(|module| {
                let label = format!("{}@{}", spec.name, module.digest().short());
                loaded.push(module);
                format!("{} {label}", spec.path)
            });
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
        let listened = match serve::listen_configs(config, sources) {
            Ok(configs) => serve::listen(&configs).await.map(|_| {
                let addresses: Vec<_> =
                    configs.iter().map(|config| config.address.to_string()).collect();
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

    /// Finds default control sockets of servers that were killed.
    fn sockets(&mut self, config: &Config) {
        if config.control == Place::Disabled {
            return self.add(
                "control",
                Level::Warning,
                "there is no control socket: status, swap and reload do not work; leave out --no-control",
            );
        }
        let folder = default_folder();
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_socket = path.extension().is_some_and(|extension| extension == "sock");
            if is_socket && UnixStream::connect(&path).is_err() {
                let path = path.display();
                let message = format!("{path}: no server listens on this socket; remove the file");
                self.add("control", Level::Warning, message);
            }
        }
    }

    fn open_files(&mut self, config: &Config) {
        let connections = config.http.connections;
        let bounded = descriptors::bounded(config.http.clone(), config.extension.len() + 1);
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

    fn swap(&mut self) {
        let Ok(memory) = Meminfo::current() else { return };
        let used = ByteSize::b(memory.swap_total.saturating_sub(memory.swap_free));
        if used.as_u64() > 0 {
            let message = format!(
                "{used} of memory are swapped out, which delays requests; give the machine more memory, or disable swap for the service (MemorySwapMax=0)"
            );
            self.add("swap", Level::Warning, message);
        } else {
            self.add("swap", Level::Ok, "none in use");
        }
    }

    /// Compares the clock with the time at which this program was written.
    fn clock(&mut self) {
        let written = env::current_exe().and_then(fs::metadata).and_then(|meta| meta.modified());
        let now = SystemTime::now();
        let time = humantime::format_rfc3339_seconds(now);
        match written {
            Ok(written) if now < written => {
                let message = format!(
                    "it is {time}, which is before this program was installed; synchronize the clock, such as with `timedatectl set-ntp true`"
                );
                self.add("clock", Level::Warning, message);
            }
            _ => self.add("clock", Level::Ok, time.to_string()),
        }
    }
}
