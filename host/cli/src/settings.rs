//! The options that override settings. Each has a key in the file, too.

use std::env;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use relayer_rest_server::config::{ConfigError, Layers, Origin};

#[derive(Args, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of the command line")]
pub(super) struct SettingArgs {
    /// The relayer's configuration file, for its chains and the address
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    relayer_config: Option<String>,
    /// Serve the API even if `enabled` in `[rest]` of that file is missing or false
    #[arg(long)]
    enable: bool,
    /// REST API of a running relayer, for its state, and for its chains unless
    /// --relayer-config is given
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// JSON file with the relayer's state, the result of /state; reloaded when
    /// it changes; needs --relayer-config
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    state: Option<String>,
    /// Metrics of a running relayer, for the dashboard, health checks and one
    /// scrape of everything [default: of `[telemetry]` in the relayer's
    /// configuration file, if enabled there; `none` disables it]
    #[arg(long, value_name = "URL")]
    telemetry: Option<String>,
    /// Interval between reads of the telemetry [default: 5s]
    #[arg(long, value_name = "TIME")]
    telemetry_poll: Option<String>,
    /// Interval between polls of the relayer [default: 1s]
    #[arg(long, value_name = "TIME")]
    poll: Option<String>,
    /// Time limit of a request to the relayer [default: 2s]
    #[arg(long, value_name = "TIME")]
    upstream_timeout: Option<String>,
    /// Maximum age of the last known state while the relayer is unreachable
    /// [default: 5min]
    #[arg(long, value_name = "TIME")]
    max_stale: Option<String>,
    /// Serve the state of a fleet, to which another server publishes it:
    /// `nats://HOST/FLEET`, instead of a relayer's
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Address to listen on, HOST:PORT or unix:PATH, instead of host and port
    /// in the relayer's `[rest]`; port 0 selects a free port; can be repeated
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Module that serves the API, instead of the bundled one: a file, or
    /// `oci://REGISTRY/REPOSITORY@sha256:DIGEST`
    #[arg(long, value_name = "MODULE", value_hint = ValueHint::FilePath)]
    module: Option<String>,
    /// Dialect of the API, to which swapped-in modules must conform: 0.7, as
    /// specified, 1.13, as in current relayers, or any [default: the
    /// relayer's with --upstream and the bundled module, or else 0.7]
    #[arg(long, value_name = "NAME")]
    dialect: Option<String>,
    /// Settings of relayer-rest [default: `$RELAYER_REST_CONFIG`]. Options
    /// override variables such as `RELAYER_REST_HTTP_CONNECTIONS` for
    /// `connections` in `[http]`, and these override the file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Swap a module when its file changes, if the new one passes all checks
    #[arg(long)]
    watch: bool,
    /// Time at shutdown in which clients of open connections may send another
    /// request, whose response ends the connection; part of --grace
    /// [default: 500ms]
    #[arg(long, value_name = "TIME")]
    drain: Option<String>,
    /// Grace period for requests in flight at shutdown, 0s to 1h [default: 10s]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// Format of the log on stderr: text or json [default: text]
    #[arg(long, value_name = "NAME")]
    log_format: Option<String>,
    /// Folder for compiled modules, writable by this user only
    /// [default: `$RELAYER_REST_CODE_CACHE`, or `relayer-rest` in
    /// `$XDG_CACHE_HOME` or `~/.cache`]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    code_cache: Option<String>,
    /// Compile the modules at each start
    #[arg(long, conflicts_with = "code_cache")]
    no_code_cache: bool,
    /// Folder for capsules: a file for each failed request, which `replay`
    /// repeats
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    capsules: Option<String>,
    /// Control socket of the server [default: `$RELAYER_REST_CONTROL`, or
    /// `ADDRESS.sock` in `$XDG_RUNTIME_DIR/relayer-rest` or
    /// `/tmp/relayer-rest-UID`, which other commands search]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    control: Option<String>,
    /// Disable the control socket: no status, swap, rollback or reload
    #[arg(long, conflicts_with = "control")]
    no_control: bool,
}

impl SettingArgs {
    /// Returns the layers of the settings: these options, the environment and the file.
    pub(super) fn layers(&self) -> Result<Layers, ConfigError> {
        let mut layers = Layers::with_environment(self.config.clone(), env::vars_os())?;
        let listen = match &self.listen[..] {
            [] => None,
            [address] => Some(address.clone()),
            addresses => Some(toml::Value::from(addresses.to_vec()).to_string()),
        };
        let flag = |is_given: bool, value: &str| is_given.then(|| value.to_owned());
        for (option, key, value) in [
            ("--relayer-config", "relayer.config", self.relayer_config.clone()),
            ("--enable", "relayer.enable", flag(self.enable, "true")),
            ("--upstream", "upstream.url", self.upstream.clone()),
            ("--state", "relayer.state", self.state.clone()),
            ("--telemetry", "telemetry.url", self.telemetry.clone()),
            ("--telemetry-poll", "telemetry.poll", self.telemetry_poll.clone()),
            ("--poll", "upstream.poll", self.poll.clone()),
            ("--upstream-timeout", "upstream.timeout", self.upstream_timeout.clone()),
            ("--max-stale", "upstream.max-stale", self.max_stale.clone()),
            ("--from", "fleet.from", self.from.clone()),
            ("--listen", "listen", listen),
            ("--module", "module.file", self.module.clone()),
            ("--dialect", "module.dialect", self.dialect.clone()),
            ("--watch", "server.watch", flag(self.watch, "true")),
            ("--drain", "server.drain", self.drain.clone()),
            ("--grace", "server.grace", self.grace.clone()),
            ("--log-format", "log.format", self.log_format.clone()),
            ("--code-cache", "code-cache", self.code_cache.clone()),
            ("--no-code-cache", "code-cache", flag(self.no_code_cache, "none")),
            ("--capsules", "capsules.folder", self.capsules.clone()),
            ("--control", "control", self.control.clone()),
            ("--no-control", "control", flag(self.no_control, "none")),
        ] {
            if let Some(value) = value {
                layers.set(key, &value, Origin::Option(option))?;
            }
        }
        Ok(layers)
    }
}
