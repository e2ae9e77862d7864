//! The health checks of a relayer, and their results.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, UNIX_EPOCH};

use relayer_rest_sdk::Host;
use relayer_rest_sdk::contract::{NotReady, Source};

use crate::escape;

/// A health check and its result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// The name, by which requests exclude it.
    pub(crate) name: Cow<'static, str>,
    pub(crate) found: Result<(), Failure>,
}

/// The reason why a check failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The data is not known, with the host's reason.
    NotReady(String),
    /// A chain cannot be checked, because the configured chains are not known.
    ChainsNotKnown,
    /// A chain cannot be checked, because the state is not known.
    StateNotKnown,
    /// The chain is not configured.
    NotConfigured,
    /// The relayer is not connected to the chain.
    NotConnected,
    /// The relayer has not confirmed its state since this time, in nanoseconds since
    /// 1970-01-01T00:00:00Z.
    Unconfirmed(u64),
    /// The source has failed since this time, in nanoseconds since 1970-01-01T00:00:00Z.
    Source { message: String, since: u64 },
    /// A value of the telemetry is beyond its threshold, with the value in words.
    Threshold(String),
}

/// The data of a relayer that the checks use.
pub(crate) struct Relayer {
    configured: Result<BTreeSet<String>, NotReady>,
    connected: Result<BTreeSet<String>, NotReady>,
    unconfirmed_since: Option<u64>,
    sources: Vec<Source>,
}

/// The kind of the source of the telemetry, which the API does not need.
const TELEMETRY: &str = "telemetry";

impl Relayer {
    pub(crate) fn read<H: Host>(host: &H) -> Self {
        Self {
            configured: host.chain_ids().map(BTreeSet::from_iter),
            connected: host.state().map(|state| BTreeSet::from_iter(state.chains)),
            unconfirmed_since: host.unconfirmed_since(),
            sources: host.sources(),
        }
    }

    /// Returns the configured chains; empty if they are not known.
    pub(crate) fn configured(&self) -> impl Iterator<Item = &str> {
        self.configured.iter().flatten().map(String::as_str)
    }

    /// Checks whether the configured chains are known.
    pub(crate) fn chains(&self) -> Check {
        Check::new("chains", known(&self.configured))
    }

    /// Checks whether the state is known.
    pub(crate) fn state(&self) -> Check {
        Check::new("state", known(&self.connected))
    }

    /// Checks whether the relayer has confirmed its state.
    pub(crate) fn confirmed(&self) -> Check {
        let failure = self.unconfirmed_since.map(Failure::Unconfirmed);
        Check::new("confirmed", failure.map_or(Ok(()), Err))
    }

    /// Checks the sources of the API's data.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Check> {
        self.sources.iter().filter(|source| source.kind != TELEMETRY).map(source)
    }

    /// Checks the source of the telemetry.
    pub(crate) fn telemetry(&self) -> impl Iterator<Item = Check> {
        self.sources.iter().filter(|source| source.kind == TELEMETRY).map(source)
    }

    /// Checks whether a chain is configured and connected.
    pub(crate) fn chain(&self, id: &str) -> Check {
        let found = match (&self.configured, &self.connected) {
            (Err(_), _) => Err(Failure::ChainsNotKnown),
            (Ok(configured), _) if !configured.contains(id) => Err(Failure::NotConfigured),
            (_, Err(_)) => Err(Failure::StateNotKnown),
            (_, Ok(connected)) if !connected.contains(id) => Err(Failure::NotConnected),
            _ => Ok(()),
        };
        Check::new(format!("chain/{id}"), found)
    }
}

fn source(source: &Source) -> Check {
    let found = match &source.failure {
        None => Ok(()),
        Some(failure) => {
            Err(Failure::Source { message: failure.message.clone(), since: failure.since })
        }
    };
    Check::new(format!("source/{}", source.kind), found)
}

impl Check {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, found: Result<(), Failure>) -> Self {
        Self { name: name.into(), found }
    }
}

fn known<T>(it: &Result<T, NotReady>) -> Result<(), Failure> {
    it.as_ref().map(drop).map_err(|reason| Failure::NotReady(reason.message.clone()))
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady(message) => write!(f, "not known: {}", escape::sentence(message)),
            Self::ChainsNotKnown => f.write_str("the configured chains are not known"),
            Self::StateNotKnown => f.write_str("the state is not known"),
            Self::NotConfigured => f.write_str("not configured"),
            Self::NotConnected => f.write_str("not connected"),
            Self::Unconfirmed(since) => {
                write!(f, "not since {}", time(*since))
            }
            Self::Source { message, since } => {
                write!(f, "{}, since {}", escape::sentence(message), time(*since))
            }
            Self::Threshold(message) => f.write_str(&escape::sentence(message)),
        }
    }
}

fn time(nanoseconds: u64) -> impl Display {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(nanoseconds))
}
