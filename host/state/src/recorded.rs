//! A snapshot that is made of recorded values instead of published ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use super::relayer::{Component, RelayerState};
use super::snapshot::{Changed, FleetPosition, ListedChain, Snapshot};
use super::source::Source;
use super::telemetry::{MetricFamily, Telemetry};
use super::versioned::{Known, RECORDED, Versioned};
use super::{ChainConfig, ChainId};

/// The values of a snapshot that belongs to no publisher. Values with
/// [`Versioned::from_lowered`] are seen by modules only.
#[derive(Debug)]
pub struct RecordedValues {
    /// The time of the last change.
    pub changed: SystemTime,
    /// The time since which the state has been unconfirmed.
    pub unconfirmed_since: Option<SystemTime>,
    /// The components.
    pub components: Versioned<Vec<Component>>,
    /// The identifiers of the chains.
    pub chain_ids: Versioned<Known<Vec<ChainId>>>,
    /// The chains by identifier.
    pub chains: HashMap<ChainId, ListedChain>,
    /// The state of the relayer.
    pub status: Versioned<Known<RelayerState>>,
    /// The sources of the state.
    pub sources: Versioned<Vec<Source>>,
    /// The names of the families of metrics.
    pub family_names: Versioned<Known<Vec<Arc<str>>>>,
    /// The families of metrics by name.
    pub families: BTreeMap<Arc<str>, Versioned<MetricFamily>>,
    /// The time at which the telemetry was read.
    pub scraped: SystemTime,
}

impl From<RecordedValues> for Snapshot {
    fn from(values: RecordedValues) -> Self {
        let RecordedValues { family_names, families, scraped, .. } = values;
        Self {
            generation: RECORDED,
            changed: Changed { generation: RECORDED, time: values.changed },
            components: values.components,
            dialect: Versioned::recorded(None),
            chain_ids: values.chain_ids,
            chains: values.chains,
            requested: Arc::default(),
            sources: values.sources,
            telemetry: Arc::new(Telemetry::from_recorded(family_names, families, scraped)),
            status: values.status,
            before_not_ready: None,
            stale: None,
            unconfirmed_since: values.unconfirmed_since,
            fleet: FleetPosition::Outside,
        }
    }
}

impl Default for RecordedValues {
    /// Returns values of which none is known.
    fn default() -> Self {
        let Snapshot { components, chain_ids, chains, status, sources, telemetry, .. } =
            Snapshot::empty();
        Self {
            changed: SystemTime::UNIX_EPOCH,
            unconfirmed_since: None,
            components,
            chain_ids,
            chains,
            status,
            sources,
            family_names: telemetry.names().clone(),
            families: BTreeMap::new(),
            scraped: SystemTime::UNIX_EPOCH,
        }
    }
}

impl ListedChain {
    /// Returns a chain of which only the identifier is known, and the configuration in the form
    /// in which modules receive it.
    pub fn from_lowered<D: Send + Sync + 'static>(id: ChainId, form: D) -> Self {
        let chain = ChainConfig { id, ..ChainConfig::default() };
        Self::Known(Versioned::from_lowered(chain, form))
    }
}
