//! Opens the sources of the state.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relayer_rest_common::files::MAX_TEXT;
use relayer_rest_common::text::for_log;
use relayer_rest_server::config::{Config, ListenAddress, Origin, Settings};
use relayer_rest_sources::Reloadable;
use relayer_rest_sources::hermes_config::{HermesConfig, Rest};
use relayer_rest_sources::{
    MAX_STATE_FILE, Polling, RelayerSettings, TelemetrySource, TelemetryUrl, Upstream,
    UpstreamSettings, Watch, parse_state_file, sample, watch,
};
use relayer_rest_state::{ChainKind, NotReady, SourceKind, StatePublisher};
use tracing::{info, warn};

use super::serve_error::ServeError;

/// Reads a source again.
pub(super) type ReadAgain = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Sources that have been read once.
pub(super) struct Sources {
    /// The relayer's section `[rest]`: the address to listen on.
    pub(super) rest: Rest,
    /// The relayer to poll.
    pub(super) upstream: Option<Upstream>,
    /// The telemetry to poll.
    pub(super) telemetry: Option<TelemetrySource>,
    /// The address of the telemetry in the relayer's configuration.
    telemetry_url: Option<String>,
    /// The functions that read the files again.
    pub(super) reloads: Vec<ReadAgain>,
    /// The watchers that call them when the files change.
    watches: Vec<Watch>,
}

/// The message if only a configuration file is given: the state is not known.
const NO_SOURCE: &str = "the relayer's state is not known: its configuration file has the \
    chains, not the workers; start with --upstream URL or --state FILE";

impl Sources {
    /// Opens the sources of the settings, and publishes the state that is known at once.
    pub(super) fn open(
        settings: &Settings,
        publisher: &StatePublisher,
    ) -> Result<Self, ServeError> {
        check(settings)?;
        let config = &settings.config;
        let RelayerSettings { config: relayer_config, enable, state } = &config.relayer;
        let mut sources = Self {
            rest: Rest::default(),
            upstream: upstream(config),
            telemetry: None,
            telemetry_url: None,
            reloads: Vec::new(),
            watches: Vec::new(),
        };
        match relayer_config {
            Some(file) => sources.relayer_config(file, *enable, publisher)?,
            None if sources.upstream.is_some() || config.fleet.from.is_some() => {}
            None => {
                warn!(
                    reason = "neither --relayer-config nor --upstream is given",
                    "serving a sample, not a relayer"
                );
                sample(publisher);
            }
        }
        let url = match &config.telemetry.url {
            Some(TelemetryUrl::Disabled) => {
                publisher.set_telemetry_not_ready(NotReady::without_telemetry());
                None
            }
            Some(TelemetryUrl::At(url)) => Some(url.to_string()),
            None => sources.telemetry_url.take(),
        };
        sources.telemetry = url.map(|url| telemetry(&url, config)).transpose()?;
        if let Some(file) = state {
            sources.state_file(file, publisher)?;
        } else if relayer_config.is_some() && sources.upstream.is_none() {
            warn!(reason = NO_SOURCE, "state unavailable");
            publisher.set_not_ready(NotReady {
                message: NO_SOURCE.to_owned(),
                // Only a restart with other arguments changes this.
                retry_after: Duration::from_mins(1),
            });
        }
        Ok(sources)
    }

    fn relayer_config(
        &mut self,
        file: &Path,
        enable: bool,
        publisher: &StatePublisher,
    ) -> Result<(), ServeError> {
        let config = HermesConfig::read(file)?;
        let disabled = |state| ServeError::Disabled { file: file.to_owned(), state };
        match config.rest.enabled {
            Some(true) => {}
            _ if enable => {}
            Some(false) => return Err(disabled("`enabled` in the section [rest] is false")),
            None => return Err(disabled("`enabled` in the section [rest] is missing")),
        }
        info!(file = %file.display(), chains = config.chains.len(), "relayer configuration loaded");
        for chain in &config.chains {
            if let ChainKind::Other(kind) = &chain.kind {
                let chain = for_log(chain.id.as_str());
                let kind = for_log(kind);
                warn!(%chain, kind, "unknown kind of chain; only the fields in the file are served");
            }
        }
        self.telemetry_url = config.telemetry.url();
        self.rest = config.rest;
        let rest = self.rest.clone();
        let telemetry = config.telemetry;
        let apply = move |publisher: &StatePublisher, config: HermesConfig| {
            if config.rest.enabled != Some(true) && !enable {
                return Err("`enabled` in the section [rest] is no longer true".to_owned());
            }
            for (section, is_changed) in
                [("[rest]", config.rest != rest), ("[telemetry]", config.telemetry != telemetry)]
            {
                if is_changed {
                    warn!(section, "changed settings need a restart");
                }
            }
            publisher.set_chains(config.chains).map_err(|error| error.to_string())
        };
        self.reload_on_change(Reloadable::open(
            SourceKind::RelayerConfig,
            file,
            MAX_TEXT,
            publisher,
            HermesConfig::from_content,
            apply,
        )?);
        Ok(())
    }

    fn state_file(&mut self, file: &Path, publisher: &StatePublisher) -> Result<(), ServeError> {
        let apply = |publisher: &StatePublisher, state| {
            publisher.set_state(state);
            Ok(())
        };
        self.reload_on_change(Reloadable::open(
            SourceKind::StateFile,
            file,
            MAX_STATE_FILE,
            publisher,
            parse_state_file,
            apply,
        )?);
        Ok(())
    }

    fn reload_on_change<T, E>(&mut self, reloadable: Reloadable<T, E>)
    where
        T: Clone + PartialEq + Send + 'static,
        E: std::fmt::Display + 'static,
    {
        let reloadable = Arc::new(reloadable);
        let reload: ReadAgain = Arc::new({
            let reloadable = Arc::clone(&reloadable);
            move || reloadable.reload()
        });
        self.reloads.push(Arc::clone(&reload));
        match watch(reloadable.file(), move || drop(reload())) {
            Ok(watch) => self.watches.push(watch),
            Err(error) => warn!(%error, hint = "send SIGHUP after each change", "file not watched"),
        }
    }
}

/// Checks that the settings of the sources do not contradict each other.
fn check(settings: &Settings) -> Result<(), ServeError> {
    let config = &settings.config;
    let RelayerSettings { config: relayer_config, enable, state } = &config.relayer;
    if state.is_some() && config.upstream.url.is_some() {
        return Err(ServeError::TwoStates);
    }
    if config.fleet.from.is_some() {
        for (name, is_given) in [
            ("--upstream (upstream.url)", config.upstream.url.is_some()),
            ("--relayer-config (relayer.config)", relayer_config.is_some()),
            ("--telemetry (telemetry.url)", config.telemetry.url.is_some()),
            ("--publish-to (fleet.publish-to)", config.fleet.publish_to.is_some()),
        ] {
            if is_given {
                return Err(ServeError::FleetAndSource { name });
            }
        }
    }
    for (name, is_given) in
        [("--state (relayer.state)", state.is_some()), ("--enable (relayer.enable)", *enable)]
    {
        if is_given && relayer_config.is_none() {
            return Err(ServeError::NoRelayerConfig { name });
        }
    }
    // The relayer's file can name its telemetry, too.
    let is_polling =
        config.upstream.url.is_some() || config.telemetry.url.is_some() || relayer_config.is_some();
    let is_polling = is_polling || config.fleet.from.is_some();
    for key in ["upstream.poll", "upstream.timeout", "upstream.max-stale"] {
        if let (false, Origin::Option(name)) = (is_polling, settings.origin(key)) {
            return Err(ServeError::NoUpstream { name });
        }
    }
    if config.upstream.url.is_some() && config.upstream.max_stale <= config.upstream.poll {
        return Err(ServeError::MaxStale);
    }
    Ok(())
}

/// Records the settings that come from the relayer's file because they are not given.
pub(super) fn derive(settings: &mut Settings, rest: &Rest, telemetry_url: Option<&str>) {
    let origin = |section| match &settings.config.relayer.config {
        Some(file) => Origin::Relayer(file.clone(), section),
        None => Origin::Default,
    };
    let (of_rest, of_telemetry) = (origin("rest"), origin("telemetry"));
    let address = ListenAddress::Tcp { host: rest.host.clone(), port: rest.port };
    settings.derive("listen", &[address], of_rest);
    if let Some(url) = telemetry_url {
        settings.derive("telemetry.url", &url, of_telemetry);
    }
}

fn upstream(config: &Config) -> Option<Upstream> {
    let UpstreamSettings { url, poll, timeout, max_stale, .. } = config.upstream.clone();
    let chains = config.relayer.config.is_none();
    let polling = Polling { poll, max_stale, timeout, chains, ..Polling::default() };
    Some(Upstream { url: url?, body_limit: config.upstream.body_limit(), polling })
}

fn telemetry(url: &str, config: &Config) -> Result<TelemetrySource, ServeError> {
    let UpstreamSettings { timeout, max_stale, .. } = config.upstream;
    let poll = config.telemetry.poll;
    let body_limit = config.upstream.body_limit();
    Ok(TelemetrySource { poll, timeout, max_stale, body_limit, ..TelemetrySource::new(url)? })
}
