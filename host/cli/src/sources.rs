//! The sources of the state: their options, and opening them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relayer_rest_common::files::MAX_TEXT;
use relayer_rest_common::text::for_log;
use relayer_rest_common::toml_text;
use relayer_rest_sources::Reloadable;
use relayer_rest_sources::hermes_config::{HermesConfig, Rest};
use relayer_rest_sources::{
    MAX_STATE_FILE, Polling, TelemetrySource, Upstream, UpstreamLimits, Watch, parse_state_file,
    sample, watch,
};
use relayer_rest_state::{ChainKind, NotReady, SourceKind, StatePublisher};
use tracing::{info, warn};

use super::serve_error::ServeError;

#[derive(Args, Clone)]
pub(super) struct SourceArgs {
    /// The relayer's configuration file, for its chains and the address
    #[arg(long, value_name = "FILE")]
    relayer_config: Option<PathBuf>,
    /// Serve the API even if `enabled` in `[rest]` of that file is missing or false
    #[arg(long, requires = "relayer_config")]
    enable: bool,
    /// REST API of a running relayer, for its state, and for its chains unless
    /// --relayer-config is given
    #[arg(long, value_name = "URL", conflicts_with = "state")]
    upstream: Option<String>,
    /// JSON file with the relayer's state, the result of /state; reloaded when
    /// it changes
    #[arg(long, value_name = "FILE", requires = "relayer_config")]
    state: Option<PathBuf>,
    /// Metrics of a running relayer, for the dashboard, health checks and one
    /// scrape of everything [default: of `[telemetry]` in the relayer's
    /// configuration file, if enabled there; `none` disables it]
    #[arg(long, value_name = "URL")]
    telemetry: Option<String>,
    /// Interval between reads of the telemetry
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    telemetry_poll: Duration,
    /// Interval between polls of the relayer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time, requires = "upstream", conflicts_with = "state")]
    poll: Duration,
    /// Time limit of a request to the relayer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time, requires = "upstream", conflicts_with = "state")]
    upstream_timeout: Duration,
    /// Maximum age of the last known state while the relayer is unreachable
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = time, requires = "upstream", conflicts_with = "state")]
    max_stale: Duration,
}

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

/// The value of `--telemetry` without telemetry.
const NO_TELEMETRY: &str = "none";

/// The message if only a configuration file is given: the state is not known.
const NO_SOURCE: &str = "the relayer's state is not known: its configuration file has the \
    chains, not the workers; start with --upstream URL or --state FILE";

impl SourceArgs {
    /// Opens the sources, and publishes the state that is known at once.
    pub(super) fn open(
        &self,
        publisher: &StatePublisher,
        limits: &UpstreamLimits,
    ) -> Result<Sources, ServeError> {
        let mut sources = Sources {
            rest: Rest::default(),
            upstream: self.upstream(limits)?,
            telemetry: None,
            telemetry_url: None,
            reloads: Vec::new(),
            watches: Vec::new(),
        };
        match &self.relayer_config {
            Some(file) => sources.relayer_config(file, self.enable, publisher)?,
            None if sources.upstream.is_some() => {}
            None => {
                warn!(
                    reason = "neither --relayer-config nor --upstream is given",
                    "serving a sample, not a relayer"
                );
                sample(publisher);
            }
        }
        let configured = sources.telemetry_url.take();
        if let Some(url) = self.telemetry.as_ref().or(configured.as_ref())
            && url != NO_TELEMETRY
        {
            sources.telemetry = Some(self.telemetry(url, limits)?);
        }
        if let Some(file) = &self.state {
            sources.state_file(file, publisher)?;
        } else if self.relayer_config.is_some() && sources.upstream.is_none() {
            warn!(reason = NO_SOURCE, "state unavailable");
            publisher.set_not_ready(NotReady {
                message: NO_SOURCE.to_owned(),
                // Only a restart with other arguments changes this.
                retry_after: Duration::from_mins(1),
            });
        }
        Ok(sources)
    }

    fn telemetry(&self, url: &str, limits: &UpstreamLimits) -> Result<TelemetrySource, ServeError> {
        let body_limit = usize::try_from(limits.body.as_u64()).unwrap_or(usize::MAX);
        let (timeout, max_stale) = (self.upstream_timeout, self.max_stale);
        let poll = self.telemetry_poll;
        Ok(TelemetrySource { poll, timeout, max_stale, body_limit, ..TelemetrySource::new(url)? })
    }

    fn upstream(&self, limits: &UpstreamLimits) -> Result<Option<Upstream>, ServeError> {
        let Some(url) = &self.upstream else { return Ok(None) };
        let chains = self.relayer_config.is_none();
        let poll = self.poll;
        let max_stale = self.max_stale;
        if max_stale <= poll {
            return Err(ServeError::MaxStale);
        }
        let body_limit = usize::try_from(limits.body.as_u64()).unwrap_or(usize::MAX);
        let timeout = self.upstream_timeout;
        let polling = Polling { poll, max_stale, timeout, chains, ..Polling::default() };
        Ok(Some(Upstream { body_limit, polling, ..Upstream::new(url)? }))
    }
}

impl Sources {
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

fn time(text: &str) -> Result<Duration, String> {
    let time = toml_text::duration(text)?;
    if !(Duration::from_millis(1)..=Duration::from_hours(24)).contains(&time) {
        return Err("expected 1ms to 24h".to_owned());
    }
    Ok(time)
}
