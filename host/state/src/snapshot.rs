//! A snapshot of a relayer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::relayer::{Component, NotReady, RelayerDialect, RelayerState};
use super::replica::FleetGeneration;
use super::requested_chains::RequestedChains;
use super::source::Source;
use super::telemetry::Telemetry;
use super::versioned::{Generation, Known, Versioned};
use super::{ChainConfig, ChainId};

/// A listed chain: its configuration, or the reason why it is not known.
#[derive(Debug, Clone)]
pub enum ListedChain {
    /// The configuration is known.
    Known(Versioned<ChainConfig>),
    /// The configuration has not been read yet.
    NotReady(Versioned<NotReady>),
}

impl ListedChain {
    /// Returns the configuration, or the reason why it is not known.
    pub fn config(&self) -> Result<&Versioned<ChainConfig>, &NotReady> {
        match self {
            Self::Known(chain) => Ok(chain),
            Self::NotReady(reason) => Err(reason.value()),
        }
    }

    /// Returns the generation, which changes if and only if the content changes.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match self {
            Self::Known(chain) => chain.generation(),
            Self::NotReady(reason) => reason.generation(),
        }
    }

    /// Returns this chain if it has this configuration, or else a new one.
    pub(super) fn with(&self, chain: ChainConfig, generation: Generation) -> Self {
        Self::Known(match self {
            Self::Known(before) => before.with(chain, generation),
            Self::NotReady(_) => Versioned::new(chain, generation),
        })
    }
}

/// An immutable snapshot of a relayer. Successive snapshots share their unchanged values.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(super) generation: Generation,
    pub(super) changed: Changed,
    pub(super) components: Versioned<Vec<Component>>,
    pub(super) dialect: Versioned<Option<RelayerDialect>>,
    pub(super) chain_ids: Versioned<Known<Vec<ChainId>>>,
    pub(super) chains: HashMap<ChainId, ListedChain>,
    pub(super) requested: Arc<RequestedChains>,
    pub(super) sources: Versioned<Vec<Source>>,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) status: Versioned<Known<RelayerState>>,
    /// The last known status, while the status is not known.
    pub(super) before_not_ready: Option<Versioned<Known<RelayerState>>>,
    pub(super) stale: Option<Stale>,
    /// The time in `stale` on the wall clock.
    pub(super) unconfirmed_since: Option<SystemTime>,
    pub(super) fleet: FleetPosition,
}

/// The place of a snapshot in a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FleetPosition {
    /// The host belongs to no fleet.
    Outside,
    /// The host belongs to a fleet, and the snapshot is not one of its generations.
    Unknown,
    /// This process publishes to the fleet.
    Writer { epoch: u64 },
    /// Another process does.
    Reader(FleetGeneration),
}

/// The last change of a published value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The generation of the change: no published value has a newer one.
    pub generation: Generation,
    /// The time of the change.
    pub time: SystemTime,
}

/// Marks content that its source no longer confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The time of the last confirmation.
    pub since: Instant,
    /// Whether the chains are from the same source.
    pub chains: bool,
}

impl Snapshot {
    /// Returns the first snapshot, in which nothing is known. The version of this crate
    /// stands in for the relayer's.
    pub(super) fn empty() -> Self {
        let start = Generation(0);
        Self {
            generation: start,
            changed: Changed { generation: start, time: SystemTime::now() },
            components: Versioned::new(
                vec![Component {
                    name: "ibc-relayer".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }],
                start,
            ),
            dialect: Versioned::new(None, start),
            chain_ids: Versioned::new(Err(NotReady::default()), start),
            chains: HashMap::new(),
            requested: Arc::default(),
            sources: Versioned::new(Vec::new(), start),
            telemetry: Arc::new(Telemetry::unavailable(start)),
            status: Versioned::new(Err(NotReady::default()), start),
            before_not_ready: None,
            stale: None,
            unconfirmed_since: None,
            fleet: FleetPosition::Outside,
        }
    }

    pub(super) fn set_stale(&mut self, stale: Option<Stale>) {
        if self.stale != stale {
            self.stale = stale;
            let before = |stale: Stale| SystemTime::now().checked_sub(stale.since.elapsed());
            self.unconfirmed_since = stale.and_then(before);
        }
    }

    /// Returns the snapshot after a publication, this much later, in which no value but the times
    /// of the last change and of the last scrape differs.
    #[must_use]
    pub fn after(&self, time: Duration) -> Self {
        let generation = Generation(self.generation.0 + 1);
        let changed = Changed { generation, time: self.changed.time + time };
        let telemetry = Arc::new(self.telemetry.after(time));
        Self { generation, changed, telemetry, ..self.clone() }
    }

    /// Returns the generation, which increases with each publication, even if no value
    /// changes.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the last change of a published value.
    #[must_use]
    pub fn changed(&self) -> Changed {
        self.changed
    }

    /// Returns the generation of the last change of a published value, of the dialect or of the
    /// telemetry.
    #[must_use]
    pub fn content_generation(&self) -> Generation {
        let others = self.telemetry.generation().max(self.dialect.generation());
        self.changed.generation.max(others)
    }

    /// Returns whether the host belongs to a fleet.
    #[must_use]
    pub fn is_in_fleet(&self) -> bool {
        self.fleet != FleetPosition::Outside
    }

    /// Returns the generation of the fleet that has this content.
    #[must_use]
    pub fn fleet_generation(&self) -> Option<FleetGeneration> {
        match self.fleet {
            FleetPosition::Outside | FleetPosition::Unknown => None,
            FleetPosition::Writer { epoch } => {
                Some(FleetGeneration { epoch, number: self.content_generation().number() })
            }
            FleetPosition::Reader(generation) => Some(generation),
        }
    }

    /// Returns the relayer's components, `ibc-relayer` first.
    #[must_use]
    pub fn components(&self) -> &Versioned<Vec<Component>> {
        &self.components
    }

    /// Returns the dialect of the relayer, if it is known.
    #[must_use]
    pub fn dialect(&self) -> &Versioned<Option<RelayerDialect>> {
        &self.dialect
    }

    /// Returns the identifiers of the configured chains, in their order.
    #[must_use]
    pub fn chain_ids(&self) -> &Versioned<Known<Vec<ChainId>>> {
        &self.chain_ids
    }

    /// Returns a listed chain.
    #[must_use]
    pub fn chain(&self, id: &str) -> Option<&ListedChain> {
        self.chains.get(id)
    }

    /// Asks the source for this chain before all others.
    pub fn request_chain(&self, id: &str) {
        self.requested.push(id);
    }

    /// Returns the staleness of the content, if its source no longer confirms it.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        self.stale
    }

    /// Returns the time of [`Self::stale`] on the wall clock.
    #[must_use]
    pub fn unconfirmed_since(&self) -> Option<SystemTime> {
        self.unconfirmed_since
    }

    /// Returns the sources of the state; empty if a program publishes it by itself.
    #[must_use]
    pub fn sources(&self) -> &Versioned<Vec<Source>> {
        &self.sources
    }

    /// Returns the relayer's telemetry.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Returns whether any value of the relayer in the snapshot has this generation.
    pub(super) fn has(&self, generation: Generation) -> bool {
        self.components.generation() == generation
            || self.chain_ids.generation() == generation
            || self.status.generation() == generation
            || self.chains.values().any(|chain| chain.generation() == generation)
    }

    /// Returns the relayer's state, sorted.
    #[must_use]
    pub fn status(&self) -> &Versioned<Known<RelayerState>> {
        &self.status
    }
}
