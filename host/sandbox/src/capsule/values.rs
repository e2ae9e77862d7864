//! The values of the state that a run read: each once, by the hash of its JSON.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use relayer_rest_state::{
    Known, ListedChain, MetricFamily, MetricKind, NotReady, RecordedValues, RelayerState, Snapshot,
    Versioned,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::redaction::Masks;
use super::{CapsuleError, Digest, MAX_CAPSULE_SIZE, invalid};
use crate::read_set::{ReadSet, StateRead, TrackedSnapshot};
use crate::request::GuestRequest;
use crate::wire;

/// The reads of a run, and the values that they returned.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedState {
    /// Whether all reads are listed. Otherwise there are more chains or families than a record
    /// has room for, and all of them are here.
    complete: bool,
    reads: Vec<Read>,
    /// The results of the functions, by the SHA-256 of their JSON.
    values: BTreeMap<String, Box<RawValue>>,
}

/// A call of a function of the contract.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    function: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    argument: Option<String>,
    /// The hash of its result.
    value: String,
}

impl RecordedState {
    /// Returns the values that were read in a snapshot.
    pub(super) fn new(
        snapshot: &Arc<Snapshot>,
        request: &Arc<GuestRequest>,
        reads: &ReadSet,
        masks: &mut Masks<'_>,
    ) -> Result<Self, CapsuleError> {
        let mut tracked = TrackedSnapshot::new(Arc::clone(snapshot), Arc::clone(request));
        let mut this =
            Self { complete: reads.is_complete(), reads: Vec::new(), values: BTreeMap::new() };
        let mut room = MAX_CAPSULE_SIZE;
        for read in reads.replayed_reads(snapshot) {
            let value = result(&mut tracked, read).map_err(CapsuleError::Syntax)?;
            let value = masks.value(value.get()).map_or(Ok(value), RawValue::from_string);
            let value = value.map_err(CapsuleError::Syntax)?;
            let hash = Digest::new(value.get().as_bytes()).to_string();
            this.reads.push(Read {
                function: read.function().to_owned(),
                argument: read.argument().map(str::to_owned),
                value: hash.clone(),
            });
            if let Entry::Vacant(vacant) = this.values.entry(hash) {
                let size = value.get().len() as u64;
                room = room.checked_sub(size).ok_or(CapsuleError::TooLarge)?;
                vacant.insert(value);
            }
        }
        Ok(this)
    }

    /// Returns the reads that are not here: the outcome of a run with them is not known.
    pub(super) fn missing(&self, reads: &ReadSet) -> Vec<String> {
        let is_here = |read: &StateRead<'_>| match read {
            StateRead::Chain(_) | StateRead::Family(_)
                if !self.complete
                    && self.reads.iter().any(|here| here.function == read.function()) =>
            {
                true
            }
            read => self.reads.iter().any(|here| {
                here.function == read.function() && here.argument.as_deref() == read.argument()
            }),
        };
        let missing = reads.state_reads().into_iter().filter(|read| !is_here(read));
        missing.map(|read| read.to_string()).collect()
    }

    /// Returns a snapshot with these values. All others are not known in it.
    pub(super) fn to_snapshot(&self) -> Result<Snapshot, CapsuleError> {
        self.check_hashes()?;
        let reason = || NotReady {
            message: "the capsule does not have this value".to_owned(),
            ..NotReady::default()
        };
        let mut values = RecordedValues {
            components: Versioned::from_lowered(Vec::new(), Vec::<wire::Component>::new()),
            chain_ids: Versioned::recorded(Err(reason())),
            status: Versioned::recorded(Err(reason())),
            family_names: Versioned::recorded(Err(reason())),
            ..RecordedValues::default()
        };
        let mut chains = HashMap::new();
        let mut has_chains = false;
        let mut has_ids = false;
        let mut has_telemetry = false;
        let mut has_names = false;
        for read in &self.reads {
            let argument = read.argument.as_deref();
            let known = StateRead::new(&read.function, argument);
            let known = known.ok_or_else(|| {
                invalid("state.reads", format!("{} is not a function of the state", read.function))
            })?;
            match known {
                StateRead::Components => {
                    let components: Vec<wire::Component> = self.value(read)?;
                    values.components = Versioned::from_lowered(Vec::new(), components);
                }
                StateRead::ChainIds => {
                    has_ids = true;
                    let ids: wire::Known<Vec<String>> = self.value(read)?;
                    let ids = known_value(ids).map(|ids| ids.into_iter().map(Into::into).collect());
                    values.chain_ids = Versioned::recorded(ids);
                }
                StateRead::Chain(id) => {
                    has_chains = true;
                    let chain: wire::Known<Option<wire::ChainConfig>> = self.value(read)?;
                    match known_value(chain) {
                        Ok(None) => {}
                        Ok(Some(chain)) => {
                            chains.insert(id.into(), ListedChain::from_lowered(id.into(), chain));
                        }
                        Err(reason) => {
                            let reason = Versioned::recorded(reason);
                            chains.insert(id.into(), ListedChain::NotReady(reason));
                        }
                    }
                }
                StateRead::State => {
                    let state: wire::Known<wire::RelayerState> = self.value(read)?;
                    let known = state.as_ref().map(|_| RelayerState::default());
                    let known = known.map_err(not_ready);
                    values.status = Versioned::from_lowered(known, state);
                }
                StateRead::Changed => values.changed = time(self.value(read)?),
                StateRead::UnconfirmedSince => {
                    values.unconfirmed_since = self.value::<Option<u64>>(read)?.map(time);
                }
                StateRead::Sources => {
                    let sources: Vec<wire::Source> = self.value(read)?;
                    values.sources = Versioned::from_lowered(Vec::new(), sources);
                }
                StateRead::Families => {
                    has_names = true;
                    let names: wire::Known<Vec<String>> = self.value(read)?;
                    let names =
                        known_value(names).map(|names| names.into_iter().map(Arc::from).collect());
                    values.family_names = Versioned::recorded(names);
                }
                StateRead::Family(name) => {
                    let family: wire::Known<Option<wire::MetricFamily>> = self.value(read)?;
                    has_telemetry |= family.is_ok();
                    if let Ok(Some(family)) = family {
                        values.families.insert(name.into(), lowered_family(name, family));
                    }
                }
                StateRead::Scraped => {
                    let scraped: wire::Known<u64> = self.value(read)?;
                    has_telemetry |= scraped.is_ok();
                    values.scraped = scraped.map_or(SystemTime::UNIX_EPOCH, time);
                }
            }
        }
        values.chains = chains;
        // A chain or a family was read without the list of them.
        if has_chains && !has_ids {
            values.chain_ids = Versioned::recorded(Ok(Vec::new()));
        }
        if has_telemetry && !has_names {
            values.family_names = Versioned::recorded(Ok(Vec::new()));
        }
        Ok(values.into())
    }

    /// Checks that each value has its hash.
    fn check_hashes(&self) -> Result<(), CapsuleError> {
        for (hash, value) in &self.values {
            // The file may have been formatted, which changes only the spaces.
            let compact = || {
                serde_json::from_str(value.get()).map(|value: serde_json::Value| value.to_string())
            };
            let is_same = |text: &str| Digest::new(text.as_bytes()).to_string() == *hash;
            if !is_same(value.get()) && !compact().is_ok_and(|text| is_same(&text)) {
                return Err(invalid(
                    &format!("state.values: {hash}"),
                    "the value has another hash",
                ));
            }
        }
        Ok(())
    }

    fn value<T: DeserializeOwned>(&self, read: &Read) -> Result<T, CapsuleError> {
        let part = || format!("state.values: {}", read.value);
        let value = self.values.get(&read.value);
        let value = value.ok_or_else(|| invalid(&part(), "there is no such value"))?;
        serde_json::from_str(value.get()).map_err(|error| invalid(&part(), error))
    }
}

/// Returns the result of a function as JSON.
fn result(
    tracked: &mut TrackedSnapshot,
    read: StateRead<'_>,
) -> Result<Box<RawValue>, serde_json::Error> {
    fn json(value: &impl Serialize) -> Result<Box<RawValue>, serde_json::Error> {
        serde_json::value::to_raw_value(value)
    }

    fn names(names: &wire::Known<Vec<Arc<str>>>) -> Result<Box<RawValue>, serde_json::Error> {
        json(&names.as_ref().map(|names| names.iter().map(|name| &**name).collect::<Vec<_>>()))
    }

    match read {
        StateRead::Components => json(&*tracked.lowered_components()),
        StateRead::ChainIds => names(&tracked.lowered_chain_ids()),
        StateRead::Chain(id) => json(&tracked.lowered_chain(id).as_ref().map(Option::as_deref)),
        StateRead::State => json(&*tracked.lowered_state()),
        StateRead::Changed => json(&tracked.lowered_changed()),
        StateRead::UnconfirmedSince => json(&tracked.lowered_unconfirmed_since()),
        StateRead::Sources => json(&*tracked.lowered_sources()),
        StateRead::Families => names(&tracked.lowered_metric_families()),
        StateRead::Family(name) => {
            json(&tracked.lowered_metric_family(name).as_ref().map(Option::as_deref))
        }
        StateRead::Scraped => json(&tracked.lowered_scraped()),
    }
}

/// Returns a family of which only the name is known besides its form for modules.
fn lowered_family(name: &str, family: wire::MetricFamily) -> Versioned<MetricFamily> {
    let only_name = MetricFamily {
        name: name.into(),
        kind: MetricKind::Untyped,
        help: String::new(),
        samples: Vec::new(),
    };
    Versioned::from_lowered(only_name, family)
}

fn known_value<T>(value: wire::Known<T>) -> Known<T> {
    value.map_err(|reason| not_ready(&reason))
}

fn not_ready(reason: &wire::NotReady) -> NotReady {
    NotReady {
        message: reason.message.clone(),
        retry_after: Duration::from_nanos(reason.retry_after),
    }
}

fn time(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}
