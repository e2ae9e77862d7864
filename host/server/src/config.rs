//! The settings of `relayer-rest` itself, which do not belong in the relayer's file.
//! Every key is documented with its meaning, unit and default.
//!
//! | file | job |
//! |---|---|
//! | `layers.rs` | the layers of the settings: options, environment, file and defaults |
//! | `place.rs` | the settings `control` and `code-cache` |
//! | `log.rs`, `access_log.rs`, `admin.rs` | the sections `[log]`, `[access-log]` and `[admin]` |
//! | `extension.rs` | the sections `[[extension]]` |
//! | `default.rs` | the tables of all limits, and the text of all settings |
//! | `default.toml` | that text, without the limits |

mod access_log;
mod admin;
mod default;
mod extension;
mod layers;
mod log;
mod place;

use std::io;
use std::path::{Path, PathBuf};

use relayer_rest_common::LimitError;
use relayer_rest_common::{
    toml_text,
    toml_text::{Position, Step, dotted},
};
use relayer_rest_conformance::Dialect;
use relayer_rest_fleet::FleetSettings;
use relayer_rest_modules::BUNDLED_EXTENSIONS;
use relayer_rest_oci::RegistrySettings;
use relayer_rest_sandbox::{Digest, HeaderGrants, Limits, RequestHeaders};
use relayer_rest_sources::{RelayerSettings, TelemetrySettings, UpstreamSettings};
use serde::{Deserialize, Serialize};

use crate::capsules::CapsulesConfig;
use crate::commands::CommandSettings;
use crate::http::{CorsConfig, HttpLimits, LiveLimits, ServerSettings};
use crate::{
    registry,
    registry::{FailurePolicy, ModuleLocation, MountError, MountPath, SwapLimits},
};

pub use crate::http::{
    CertificateConfig, FileMode, ListenAddress, ListenConfig, Listeners, Owner, OwnerError,
};
pub use access_log::{AccessLogConfig, AccessLogFormat};
pub use admin::{AdminAddress, AdminConfig};
pub use default::{DEFAULT, LIMITS};
pub use extension::{ExtensionConfig, ExtensionName};
pub use layers::{Layers, Origin, Setting, Settings, UnknownVariable};
pub use log::{LogConfig, LogFormat};
pub use place::Place;
pub use relayer_rest_common::limit::Limit;

/// The content of the file given with `--config FILE`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The addresses at which clients reach the server. Default: the one of the relayer's
    /// `[rest]`.
    pub listen: Listeners,
    /// The control socket. Default: `ADDRESS.sock` in the folder that the commands search.
    pub control: Place,
    /// The folder for compiled modules. Default: `relayer-rest` in the cache of the user.
    pub code_cache: Place,
    /// The section `[log]`: the log on stderr.
    pub log: LogConfig,
    /// The section `[access-log]`: a line for each request.
    pub access_log: AccessLogConfig,
    /// The section `[capsules]`: files with failed requests.
    pub capsules: CapsulesConfig,
    /// The section `[relayer]`: the files of the relayer.
    pub relayer: RelayerSettings,
    /// The section `[upstream]`: the relayer that is polled.
    pub upstream: UpstreamSettings,
    /// The section `[telemetry]`: the relayer's metrics.
    pub telemetry: TelemetrySettings,
    /// The section `[fleet]`: the hosts that serve the same state.
    pub fleet: FleetSettings,
    /// The section `[module]`: the module that serves the API.
    pub module: ModuleConfig,
    /// The sections `[[extension]]`: additional modules. Default: none.
    pub extension: Vec<ExtensionConfig>,
    /// The section `[server]`: the threads of the server, and its shutdown.
    pub server: ServerSettings,
    /// The section `[http]`: limits on clients.
    pub http: HttpLimits,
    /// The section `[live]`: limits on clients that wait for the next version of a response.
    pub live: LiveLimits,
    /// The section `[cors]`: the origins of web pages that may read responses.
    pub cors: CorsConfig,
    /// The section `[admin]`: a listener for health, log level and control.
    pub admin: AdminConfig,
    /// The section `[commands]`: commands to the relayer that clients may give.
    pub commands: CommandSettings,
    /// The section `[swap]`: limits on the preflight of a module.
    pub swap: SwapLimits,
    /// The section `[registries]`: the registries of modules, and their signatures.
    pub registries: RegistrySettings,
}

/// The module that serves the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ModuleConfig {
    /// The component: a file, relative to the folder of the configuration file, or
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`. Default: the bundled module of the dialect.
    pub file: Option<ModuleLocation>,
    /// The SHA-256 of the component, in hexadecimal digits. A component with another
    /// digest is not loaded, neither at the start nor when the file changes. Manual swaps
    /// are not checked against it. Default: any.
    pub sha256: Option<Digest>,
    /// The name of the signer of the module and of those that are swapped in, which must come
    /// from a registry then. Default: none.
    pub signer: Option<String>,
    /// The dialect of the API: `0.7`, `1.13` or `any`. It selects the bundled module, and
    /// applies to modules that are swapped in unless the swap names another. Default: the
    /// one of the relayer behind a bundled module, if it is polled, or `0.7`.
    pub dialect: Option<Dialect>,
    /// Whether the module may also import WASI, which gives it no access to the outside.
    /// Default: false.
    pub wasi: bool,
    /// The response headers with effects beyond its mount that the module may set, such
    /// as `strict-transport-security`, or `set-cookie` for cookies of any path and
    /// domain. Default: none.
    pub headers: HeaderGrants,
    /// The request headers that the module sees if it is a component of `wasi:http`.
    /// Default: all but the ones that the host evaluates.
    pub request_headers: RequestHeaders,
    /// The section `[module.limits]`: limits on the module.
    pub limits: Limits,
    /// The section `[module.failure-policy]`: the failures that a module may have after a
    /// swap.
    pub failure_policy: FailurePolicy,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {}: cannot be read: {source}; check the path and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The content is not a valid configuration.
    #[error("configuration {}: {problem}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The problem with the content.
        problem: ConfigProblem,
    },
    /// A value above the file is not valid.
    #[error("{origin}: {message}")]
    Value {
        /// The variable or the option.
        origin: Origin,
        /// The problem.
        message: String,
    },
}

/// A problem with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// The text is not TOML, or a key is unknown or of a wrong type.
    #[error("{position}: {}{message}", place(key))]
    Text {
        /// The position of the problem.
        position: Position,
        /// The key, if the problem is in a value.
        key: String,
        /// The problem.
        message: String,
    },
    /// A limit is out of its range.
    #[error("{position}: {section}.{error}")]
    Limit {
        /// The position of the value.
        position: Position,
        /// The section of the limit.
        section: String,
        /// The key of the limit, its value and its range.
        error: LimitError,
    },
    /// An extension cannot be mounted next to the others.
    #[error("{position}: {key}: {error}")]
    Mount {
        /// The position of the value.
        position: Position,
        /// The key.
        key: String,
        /// The reason.
        error: MountError,
    },
}

impl Config {
    /// Reads a file. Paths in it become relative to the current folder.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Layers::new(Some(file.to_owned())).read().map(|settings| settings.config)
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let config: Self = toml_text::parse(text).map_err(|error| ConfigProblem::Text {
            position: error.position.unwrap_or(Position { line: 1, column: 1 }),
            key: dotted(&error.path),
            message: error.message,
        })?;
        config.check_limits(text)?;
        config.check_listeners(text)?;
        config.check_mounts(text)?;
        config.check_bundled(text)?;
        Ok(config)
    }

    /// Checks that the keys of each listener have an effect.
    fn check_listeners(&self, text: &str) -> Result<(), ConfigProblem> {
        for (place, listener) in self.listen.0.iter().enumerate() {
            let Some((key, reason)) = listener.problem() else { continue };
            let listen = Step::Key("listen".to_owned());
            let path = [listen, Step::Index(place), Step::Key(key.to_owned())];
            return Err(ConfigProblem::Text {
                position: Position::locate(text, &path),
                key: dotted(&path),
                message: reason.to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the place of a listener to which no proxy can connect, although each connection
    /// must be one of a proxy. The networks of proxies can be in another layer.
    fn unreachable_listener(&self) -> Option<usize> {
        if !self.http.trusted_proxies.is_empty() {
            return None;
        }
        self.listen.0.iter().position(|listener| {
            listener.proxy_protocol && matches!(listener.address, ListenAddress::Tcp { .. })
        })
    }

    /// Checks that each extension without a file is bundled.
    fn check_bundled(&self, text: &str) -> Result<(), ConfigProblem> {
        let mut extensions = self.extension.iter().enumerate();
        let Some((place, extension)) = extensions
            .find(|(_, extension)| extension.module.is_none() && extension.bundled().is_none())
        else {
            return Ok(());
        };
        let key = |key: &str| Step::Key(key.to_owned());
        let path = [key("extension"), Step::Index(place), key("name")];
        let name = extension.name.as_str();
        let known: Vec<_> = BUNDLED_EXTENSIONS.iter().map(|bundled| bundled.name).collect();
        let key = dotted(&path[..2]);
        let known = known.join(", ");
        Err(ConfigProblem::Text {
            position: Position::locate(text, &path),
            key,
            message: format!(
                "no bundled extension {name:?}; expected one of {known}, or the file as module"
            ),
        })
    }

    fn check_limits(&self, text: &str) -> Result<(), ConfigProblem> {
        let key = |key: &str| Step::Key(key.to_owned());
        let mut sections = Vec::new();
        let ModuleConfig { limits, failure_policy, .. } = &self.module;
        sections.push((vec![key("module"), key("limits")], limits.check()));
        sections.push((vec![key("module"), key("failure-policy")], failure_policy.check()));
        for (place, extension) in self.extension.iter().enumerate() {
            let ExtensionConfig { limits, failure_policy, .. } = extension;
            let section = |name| vec![key("extension"), Step::Index(place), key(name)];
            sections.push((section("limits"), limits.check()));
            sections.push((section("failure-policy"), failure_policy.check()));
        }
        sections.push((vec![key("server")], self.server.check()));
        sections.push((vec![key("http")], self.http.check()));
        sections.push((vec![key("live")], self.live.check()));
        sections.push((vec![key("upstream")], self.upstream.check()));
        sections.push((vec![key("telemetry")], self.telemetry.check()));
        sections.push((vec![key("commands")], self.commands.check()));
        sections.push((vec![key("access-log")], self.access_log.check()));
        sections.push((vec![key("capsules")], self.capsules.check()));
        sections.push((vec![key("swap")], self.swap.check()));
        sections.push((vec![key("registries")], self.registries.check()));
        for (mut path, checked) in sections {
            let Err(error) = checked else { continue };
            let section = dotted(&path);
            path.push(key(error.key));
            let position = Position::locate(text, &path);
            return Err(ConfigProblem::Limit { position, section, error });
        }
        Ok(())
    }

    /// Checks that the names and the mounts of the extensions do not conflict.
    fn check_mounts(&self, text: &str) -> Result<(), ConfigProblem> {
        let mut mounted: Vec<(&str, MountPath)> = Vec::new();
        for (place, extension) in self.extension.iter().enumerate() {
            let name = extension.name.as_str();
            let path = extension.path();
            let known = mounted.iter().map(|(name, path)| (*name, path));
            registry::check_conflicts(known, name, &path).map_err(|error| {
                let key = if matches!(error, MountError::Name(_)) { "name" } else { "mount" };
                let extension = Step::Key("extension".to_owned());
                let path = [extension, Step::Index(place), Step::Key(key.to_owned())];
                let position = Position::locate(text, &path);
                ConfigProblem::Mount { position, key: dotted(&path), error }
            })?;
            mounted.push((name, path));
        }
        Ok(())
    }
}

/// Returns the text of a file, or the place where it is not text.
fn utf8(bytes: &[u8]) -> Result<&str, ConfigProblem> {
    str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        ConfigProblem::Text {
            position: Position::from_offset(&before, before.len()),
            key: String::new(),
            message: "not UTF-8; save the file as UTF-8".to_owned(),
        }
    })
}

fn place(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

#[cfg(test)]
mod tests {
    use super::{
        AccessLogConfig, AccessLogFormat, AdminAddress, AdminConfig, CapsulesConfig, Config,
        CorsConfig, DEFAULT, Dialect, HttpLimits, LiveLimits, LogConfig, LogFormat, ModuleLocation,
        Place, RelayerSettings, ServerSettings, TelemetrySettings, UpstreamSettings,
    };
    use crate::capsules::RedactedHeaders;
    use bytesize::ByteSize;
    use relayer_rest_fleet::FleetSettings;
    use relayer_rest_modules::BUNDLED_EXTENSIONS;
    use relayer_rest_oci::RegistrySettings;
    use relayer_rest_sandbox::{Grants, HeaderGrants, RequestHeaders};
    use relayer_rest_sources::TelemetryUrl;
    use std::mem::take;
    use std::time::Duration;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "it has each key")]
    fn every_key_is_read() {
        let digest = "0a".repeat(32);
        let text = "listen = ['a:1', '[::1]:2']\ncontrol = 'none'\ncode-cache = 'd'\n\
             [log]\nformat = 'json'\nlevel = 'warn'\n\
             [access-log]\nfile = 'i'\nformat = 'json'\nsample = 3\n\
             [capsules]\nfolder = 'j'\ncount = 4\nsize = '5MiB'\nredact = ['X-A']\n\
             [relayer]\nconfig = 'e'\nenable = true\nstate = 'f'\n\
             [telemetry]\nurl = 'http://h'\npoll = '6s'\n\
             [fleet]\nfrom = 'nats://n/o'\npublish-to = 'tls://p:1,q/r'\nname = 's'\nreplicas = 3\ncredentials = 't'\nca = 'u'\ncertificate = 'v'\nkey = 'w'\n\
             [module]\nfile = 'api.wasm'\nsha256 = '"
            .to_owned()
            + &digest
            + "'\ndialect = '1.13'\nwasi = true\nheaders = ['Alt-Svc', 'set-cookie']\nrequest-headers = ['Accept']\n[module.limits]\nmemory = '16MiB'\ntime = '250ms'\n\
             concurrency = 8\nqueue = 9\nqueue-wait = '2s'\nresponse-cache = '0B'\n\
             stack = '1MiB'\ntable = 5\nbody = '2MiB'\nheaders = 6\nheader-size = '3KiB'\n\
             log = '4KiB'\nlog-rate = '5KiB'\nverify-reset = 11\n\
             [module.failure-policy]\nfailures = 1\nwindow = '1min'\nfailure-rate = 60\nprobation = 2\n\
             [[extension]]\nname = 'a'\nmount = '/b'\nmodule = 'c.wasm'\n\
             headers = ['nel']\ngrants = ['state', 'chains']\nsha256 = '"
            + &digest
            + "'\n\
             [extension.limits]\nqueue = 3\n[extension.failure-policy]\nprobation = 4\n\
             [[extension]]\nname = 'd'\nmodule = 'oci://h:1/e:2'\nsigner = 'ci'\nwasi = true\nrequest-headers = []\n\
             [swap]\nsize = '1MiB'\ntime = '2s'\nmemory = '3GiB'\n\
             [server]\nworkers = 12\ndrain = '1s'\ngrace = '2s'\nwatch = true\n\
             [http]\nconnections = 7\nconnections-per-peer = 6\nidle = '3s'\nstalled = '4s'\nunsent = '2GiB'\n\
             target = '1KiB'\nheaders = 50\nhead = '9KiB'\nbody = '0B'\nhosts = ['a', '[::1]:2']\nbase-path = '/relayer/'\ntrusted-proxies = ['10.0.0.0/8', '::1/128']\n\
             [live]\nmax-wait = '7s'\nmin-interval = '20ms'\nruns-per-second = 9\nwaiters = 10\nwaiters-per-peer = 11\nwaiters-per-mount = 12\nentries = 13\nmemory = '14MiB'\n\
             [cors]\norigins = ['https://a.example', '*']\n\
             [admin]\nlisten = 'unix:a.sock'\ntoken-file = 'b'\n\
             [upstream]\nurl = 'http://g'\npoll = '3s'\ntimeout = '4s'\nmax-stale = '5s'\nbody = '3MiB'\n\
             [registries]\ntimeout = '7s'\ncache-size = '2GiB'\ncache = 'j'\ndocker-config = 'k'\n\
             insecure = ['l:1']\nrequire-signature = true\nsigners = { ci = 'm' }\n";
        let config = Config::parse(&text).unwrap();
        let digest = Some(digest.parse().unwrap());
        let origins =
            ["https://a.example", "*"].map(|origin| origin.to_owned().try_into().unwrap());
        assert_eq!(config.cors, CorsConfig { origins: origins.to_vec() });
        let listen = Some(AdminAddress::Unix("a.sock".into()));
        assert_eq!(config.admin, AdminConfig { listen, token_file: Some("b".into()) });
        assert_eq!(config.module.sha256, digest);
        assert_eq!((config.extension[0].sha256, config.extension[1].sha256), (digest, None));
        assert_eq!(config.extension[0].granted(), Grants::new(&["chains", "state"]).unwrap());
        assert_eq!(config.extension[1].granted(), Grants::none());
        let [first, second] = &config.extension[..] else { panic!("{config:?}") };
        assert_eq!(config.module.headers, HeaderGrants::new(&["alt-svc", "set-cookie"]).unwrap());
        assert_eq!(config.module.request_headers, RequestHeaders::new(&["accept"]).unwrap());
        assert_eq!(first.request_headers, RequestHeaders::default());
        assert_eq!(second.request_headers, RequestHeaders::new::<&str>(&[]).unwrap());
        assert_eq!(first.headers, HeaderGrants::new(&["nel"]).unwrap());
        assert_eq!(second.headers, HeaderGrants::default());
        assert_eq!([config.module.wasi, first.wasi, second.wasi], [true, false, true]);
        assert_eq!((first.name.as_str(), first.path().as_str()), ("a", "/b"));
        assert_eq!(first.module, Some(ModuleLocation::File("c.wasm".into())));
        assert_eq!((first.limits.queue, first.failure_policy.probation), (3, 4));
        assert_eq!(second.path().as_str(), "/ext/d");
        let reference = "oci://h:1/e:2".parse().unwrap();
        assert_eq!(second.module, Some(ModuleLocation::Registry(reference)));
        assert_eq!(second.signer.as_deref(), Some("ci"));
        let [cache, docker_config] = ["j", "k"].map(|path| Some(path.into()));
        let registries = RegistrySettings {
            timeout: Duration::from_secs(7),
            cache_size: ByteSize::gib(2),
            cache,
            docker_config,
            insecure: vec!["l:1".to_owned()],
            signers: [("ci".to_owned(), "m".into())].into(),
            require_signature: true,
        };
        assert_eq!(config.registries, registries);
        assert_eq!(config.swap.size, ByteSize::mib(1));
        assert_eq!(config.swap.time, Duration::from_secs(2));
        assert_eq!(config.swap.memory, ByteSize::gib(3));
        let failure_policy = &config.module.failure_policy;
        assert_eq!(
            (failure_policy.failures, failure_policy.failure_rate, failure_policy.probation),
            (1, 60, 2)
        );
        assert_eq!(failure_policy.window, Duration::from_mins(1));
        let limits = config.module.limits;
        assert_eq!(config.module.dialect, Some(Dialect::V1_13));
        assert_eq!(config.module.file, Some(ModuleLocation::File("api.wasm".into())));
        assert_eq!(limits.memory, ByteSize::mib(16));
        assert_eq!(limits.time, Duration::from_millis(250));
        assert_eq!((limits.concurrency, limits.queue), (8, 9));
        assert_eq!(limits.queue_wait, Duration::from_secs(2));
        assert_eq!(limits.response_cache, ByteSize::b(0));
        assert_eq!((limits.stack, limits.body), (ByteSize::mib(1), ByteSize::mib(2)));
        assert_eq!((limits.table, limits.headers), (5, 6));
        assert_eq!(limits.verify_reset, 11);
        assert_eq!(limits.header_size, ByteSize::kib(3));
        assert_eq!((limits.log, limits.log_rate), (ByteSize::kib(4), ByteSize::kib(5)));
        let second = Duration::from_secs(1);
        let server = ServerSettings { workers: 12, drain: second, grace: 2 * second, watch: true };
        assert_eq!(config.server, server);
        let listen = config.listen.0.iter().map(|listen| listen.address.to_string());
        assert!(listen.eq(["a:1", "[::1]:2"]));
        assert_eq!(config.control, Place::Disabled);
        assert_eq!(config.code_cache, Place::At("d".into()));
        let log = LogConfig { format: LogFormat::Json, level: Some("warn".to_owned()) };
        assert_eq!(config.log, log);
        let file = Some("i".into());
        let access_log = AccessLogConfig { sample: 3, file, format: AccessLogFormat::Json };
        assert_eq!(config.access_log, access_log);
        let capsules = CapsulesConfig {
            count: 4,
            size: ByteSize::mib(5),
            folder: Some("j".into()),
            redact: RedactedHeaders(vec!["x-a".parse().unwrap()]),
        };
        assert_eq!(config.capsules, capsules);
        let [file, state] = ["e", "f"].map(|path| Some(path.into()));
        assert_eq!(config.relayer, RelayerSettings { config: file, enable: true, state });
        let url = "http://h/metrics".parse().unwrap();
        let telemetry = TelemetrySettings { url: Some(TelemetryUrl::At(url)), poll: 6 * second };
        assert_eq!(config.telemetry, telemetry);
        let [credentials, ca, certificate, key] =
            ["t", "u", "v", "w"].map(|path| Some(path.into()));
        let fleet = FleetSettings {
            from: Some("nats://n/o".parse().unwrap()),
            publish_to: Some("tls://p:1,q/r".parse().unwrap()),
            name: Some("s".to_owned()),
            replicas: 3.try_into().unwrap(),
            credentials,
            ca,
            certificate,
            key,
        };
        assert_eq!(config.fleet, fleet);
        let upstream = UpstreamSettings {
            url: Some("http://g".parse().unwrap()),
            poll: 3 * second,
            timeout: 4 * second,
            max_stale: 5 * second,
            body: ByteSize::mib(3),
        };
        assert_eq!(config.upstream, upstream);
        let http = HttpLimits {
            connections: 7,
            connections_per_peer: 6,
            idle: Duration::from_secs(3),
            stalled: Duration::from_secs(4),
            unsent: ByteSize::gib(2),
            target: ByteSize::kib(1),
            headers: 50,
            head: ByteSize::kib(9),
            body: ByteSize::b(0),
            hosts: ["A.", "[0::1]:2"].map(|host| host.parse().unwrap()).to_vec(),
            base_path: "/relayer".to_owned().try_into().unwrap(),
            trusted_proxies: ["10.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap()).to_vec(),
        };
        assert_eq!(config.http, http);
        let live = LiveLimits {
            max_wait: 7 * second,
            min_interval: Duration::from_millis(20),
            runs_per_second: 9,
            waiters: 10,
            waiters_per_peer: 11,
            waiters_per_mount: 12,
            entries: 13,
            memory: ByteSize::mib(14),
        };
        assert_eq!(config.live, live);
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "it is a table")]
    fn errors_name_the_position_and_the_key() {
        for (text, message) in [
            (
                "[modul]",
                "line 1, column 2: modul: unknown field `modul`, expected one of `listen`, `control`, `code-cache`, `log`, `access-log`, `capsules`, `relayer`, `upstream`, `telemetry`, `fleet`, `module`, `extension`, `server`, `http`, `live`, `cors`, `admin`, `commands`, `swap`, `registries`; did you mean `module`?",
            ),
            (
                "[module.limits]\nmemory = true",
                "line 2, column 10: module.limits.memory: invalid type: boolean `true`",
            ),
            (
                "[module.limits]\n\nqueue = -1",
                "line 3, column 9: module.limits.queue: invalid value",
            ),
            ("[module]\ndialect = '2'", "line 2, column 11: module.dialect: unknown dialect \"2\""),
            ("[[extension]]\nmodule = 'm'", "line 1, column 1: extension[0]: missing field `name`"),
            (
                "[[extension]]\nname = 'A'\nmodule = 'm'",
                "line 2, column 8: extension[0].name: \"A\" is not a valid name",
            ),
            (
                "[[extension]]\nname = 'api'\nmodule = 'm'",
                "line 2, column 8: extension[0].name: name \"api\" is reserved",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\nmount = '/state/x'",
                "line 4, column 9: extension[0].mount: /state/x is reserved for the API",
            ),
            (
                "[module.failure-policy]\nfailures = 0",
                "line 2, column 12: module.failure-policy.failures: 0 is out of range; expected 1 to 1000",
            ),
            (
                "[module.failure-policy]\nfailure-rate = 101",
                "line 2, column 16: module.failure-policy.failure-rate: 101 is out of range; expected 1 to 100",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\nlimits.queue = 1000001",
                "line 4, column 16: extension[0].limits.queue: 1000001 is out of range; expected 0 to 1000000",
            ),
            (
                "[http]\nidle = '1ms'",
                "line 2, column 8: http.idle: 1ms is out of range; expected 1s to 1h",
            ),
            (
                "[http]\nheaders = 101",
                "line 2, column 11: http.headers: 101 is out of range; expected 1 to 100",
            ),
            (
                "[http]\nhosts = [\n  'a',\n  'http://b',\n]",
                "line 4, column 3: http.hosts[1]: \"http://b\" is not a host; expected a name or an address",
            ),
            (
                "[http]\nhead = '1KiB'",
                "line 2, column 8: http.head: 1.0 KiB is out of range; expected 8KiB to 1MiB",
            ),
            (
                "[module.limits]\nstack = '1KiB'",
                "line 2, column 9: module.limits.stack: 1.0 KiB is out of range; expected",
            ),
            (
                "[module.limits]\ntable = 0",
                "line 2, column 9: module.limits.table: 0 is out of range; expected 1 to 10000000",
            ),
            (
                "[upstream]\nbody = '63KiB'",
                "line 2, column 8: upstream.body: 63.0 KiB is out of range; expected 64KiB to 1GiB",
            ),
            (
                "[swap]\ntime = '0s'",
                "line 2, column 8: swap.time: 0ns is out of range; expected 1ms to 1h",
            ),
            (
                "[swap]\nmemory = '1MiB'",
                "line 2, column 10: swap.memory: 1.0 MiB is out of range; expected 64MiB to 64GiB",
            ),
            ("[module", "line 1, column 8: "),
            (
                "[extension]\nname = 'a'\nmodule = 'm'",
                "line 1, column 1: extension: a section that can be repeated; write it as [[extension]]",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\ngrants = 'chains'",
                "line 4, column 10: extension[0].grants: expected a list, not a string; write [\"chains\"]",
            ),
            (
                "[module]\nheaders = 'alt-svc'",
                "line 2, column 11: module.headers: expected a list, not a string; write [\"alt-svc\"]",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\ngrants = ['state', 'files']",
                "line 4, column 10: extension[0].grants: unknown interface \"files\"; expected one of version,",
            ),
            (
                "[module]\nheaders = ['alt-svc', 'etag']",
                "line 2, column 23: module.headers[1]: header etag needs no grant",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\nheaders = ['connection']",
                "line 4, column 12: extension[0].headers[0]: header connection is reserved for the host",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\nsha256 = '12'",
                "line 4, column 10: extension[0].sha256: \"12\" is not a SHA-256",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\n[[extension]]\nname = 'a'\nmodule = 'm'",
                "line 5, column 8: extension[1].name: duplicate name \"a\"",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\n[[extension]]\nname = 'b'\nmodule = 'm'\nmount = '/ext/a/b'",
                "line 7, column 9: extension[1].mount: mounts /ext/a and /ext/a/b overlap",
            ),
            (
                "[[extension]]\nname = 'metrics'\n[[extension]]\nname = 'metric'",
                "line 4, column 8: extension[1]: no bundled extension \"metric\"; expected one of dashboard, health, metrics, or the file as module",
            ),
            (
                "[[extension]]\nname = 'a'\nmodule = 'm'\nmount = '/'",
                "line 4, column 9: extension[0].mount: extension \"a\": / is reserved for the API",
            ),
            (
                "[module]\nfile = 'oci://a/b'",
                "line 2, column 8: module.file: \"oci://a/b\" is not a reference: neither a digest nor a tag",
            ),
            (
                "[registries]\ninsecure = ['http://a']",
                "line 2, column 12: registries.insecure: \"http://a\" is out of range; expected hosts",
            ),
            (
                "[module]\nfile = 'oci://user:pass@a/b'",
                "line 2, column 8: module.file: \"…\" is not a reference: no SHA-256 digest",
            ),
            (
                "[module.limits]\nmemory = '64 bananas'",
                "line 2, column 10: module.limits.memory: '64 bananas' is not a size",
            ),
            (
                "[module.limits]\ntime = '1 fortnight'",
                "line 2, column 8: module.limits.time: '1 fortnight' is not a duration",
            ),
            (
                "[module.limits]\nmemory = '1KiB'",
                "line 2, column 10: module.limits.memory: 1.0 KiB is out of range; expected",
            ),
            (
                "[module.limits]\ntime = '1us'",
                "line 2, column 8: module.limits.time: 1µs is out of range; expected 1ms to 1h",
            ),
            (
                "[module.limits]\ntime = '300000000000years'",
                "line 2, column 8: module.limits.time: ",
            ),
            (
                "[module.limits]\nqueue-wait = '2h'",
                "line 2, column 14: module.limits.queue-wait: 7200s is out of range; expected",
            ),
            (
                "[module.limits]\nresponse-cache = '65GiB'",
                "line 2, column 18: module.limits.response-cache: 65.0 GiB is out of range; expected 0B to 64GiB",
            ),
            (
                "[module.limits]\nconcurrency = 0",
                "line 2, column 15: module.limits.concurrency: 0 is out of range; expected",
            ),
        ] {
            let problem = Config::parse(text).unwrap_err().to_string();
            assert!(problem.starts_with(message), "{text}: {problem}");
        }
    }

    #[test]
    fn the_list_of_hosts_is_bounded() {
        let text = |count: usize| format!("[http]\nhosts = [{}]", "'a',".repeat(count));
        assert_eq!(Config::parse(&text(256)).unwrap().http.hosts.len(), 256);
        let error = Config::parse(&text(257)).unwrap_err().to_string();
        let expected =
            "line 2, column 9: http.hosts: 257 entries is out of range; expected up to 256 entries";
        assert_eq!(error, expected);
    }

    /// Returns the settings and section headings that are commented out.
    fn uncommented() -> String {
        let is_setting = |line: &&str| line.starts_with(['[', ']']) || line.contains(" = ");
        let lines = DEFAULT.lines().filter_map(|line| line.strip_prefix("# ")).filter(is_setting);
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_printed_defaults_are_the_defaults() {
        assert_eq!(Config::parse(&DEFAULT).unwrap(), Config::default());
        let text = uncommented();
        let (given, extension) = text.split_once("[[extension]]").unwrap();
        let mut config = Config::parse(given).unwrap();
        // These have no default that a file could contain.
        assert_eq!(take(&mut config.listen.0).len(), 1);
        assert!(matches!(take(&mut config.control), Place::At(_)));
        assert!(matches!(take(&mut config.code_cache), Place::At(_)));
        assert!(config.log.level.take().is_some());
        assert!(config.relayer.config.take().is_some() && config.relayer.state.take().is_some());
        assert!(config.upstream.url.take().is_some() && config.telemetry.url.take().is_some());
        assert!(config.module.file.take().is_some() && config.module.sha256.take().is_some());
        assert!(config.module.signer.take().is_some());
        let registries = take(&mut config.registries);
        assert!(registries.cache.is_some() && registries.docker_config.is_some());
        assert_eq!(registries.signers.len(), 1);
        assert_ne!(take(&mut config.module.request_headers), RequestHeaders::default());
        assert!(
            config.module.dialect.take().is_some()
                && config.commands.token_file.take().is_some()
                && config.access_log.file.take().is_some()
                && config.capsules.folder.take().is_some()
                && !take(&mut config.capsules.redact).0.is_empty()
                && take(&mut config.admin) != AdminConfig::default()
                && take(&mut config.fleet) != FleetSettings::default()
        );
        let included = std::mem::take(&mut config.extension);
        let included: Vec<_> = included.iter().map(|extension| extension.name.as_str()).collect();
        assert!(included.into_iter().eq(BUNDLED_EXTENSIONS.iter().map(|bundled| bundled.name)));
        assert_eq!(config, Config::default());
        let extension = format!("[[extension]]{extension}");
        let [extension] = &Config::parse(&extension).unwrap().extension[..] else { panic!() };
        assert_eq!(extension.path().as_str(), "/ext/hello");
    }

    /// Returns the lines of a section.
    fn section(name: &str) -> String {
        let text = format!("\n{}", uncommented());
        let (_, rest) = text.split_once(&format!("\n[{name}]")).unwrap();
        rest.split("\n[").next().unwrap().trim_start_matches(']').to_owned()
    }

    #[test]
    fn each_setting_is_printed() {
        // The error for an unknown key lists the known keys.
        for name in [
            "module",
            "module.limits",
            "module.failure-policy",
            "swap",
            "http",
            "live",
            "[extension]",
            "[listen]",
            "server",
            "upstream",
            "relayer",
            "commands",
            "registries",
            "capsules",
        ] {
            let error = Config::parse(&format!("[{name}]\nunknown = 1")).unwrap_err();
            let known = error.to_string();
            let known: Vec<_> = known.split('`').skip(3).step_by(2).collect();
            assert!(known.len() > 2, "{error}");
            let lines = section(name);
            let sections = uncommented();
            for key in known {
                let is_there = lines.contains(&format!("\n{key} = "))
                    || sections.contains(&format!(".{key}]"));
                assert!(is_there, "{name} has {key}");
            }
        }
    }
}
