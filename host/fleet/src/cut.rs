//! Cuts a snapshot into parts, so that a change of one value changes few of them.

use std::collections::{BTreeMap, HashMap};

use relayer_rest_state::{Generation, Object, RelayerState, Snapshot, Worker};

use crate::part::{PartName, Parts};
use crate::state_part::{
    CHAIN, CHAINS, ChainPart, DIALECT, FAMILY, STATE, StateHead, TELEMETRY, VERSIONS, hashed,
    single, split, workers,
};

/// The number of workers in a part when the parts are cut: about 700 bytes, compressed.
const WORKERS: usize = 32;

/// The factor by which the number of workers may grow or shrink before the parts are cut anew.
const TOLERANCE: usize = 4;

const MAX_BUCKETS: usize = 1 << 12;

/// Cuts snapshots, and encodes only values that differ from those of the snapshot before.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    values: HashMap<PartName, Cached>,
    /// The number of parts with workers.
    buckets: usize,
}

/// The parts of a value, and its generation.
#[derive(Debug)]
struct Cached {
    generation: Generation,
    parts: Parts,
}

impl Cutter {
    /// Returns the parts of a snapshot.
    pub(crate) fn cut(&mut self, snapshot: &Snapshot) -> Parts {
        let mut cut = Cut {
            before: std::mem::take(&mut self.values),
            values: HashMap::new(),
            parts: Parts::new(),
        };
        let versions = snapshot.components();
        cut.add(single(VERSIONS), versions.generation(), |name| split(name, versions.value()));
        let dialect = snapshot.dialect();
        cut.add(single(DIALECT), dialect.generation(), |name| split(name, dialect.value()));
        let chains = snapshot.chain_ids();
        cut.add(single(CHAINS), chains.generation(), |name| split(name, chains.value()));
        for id in chains.value().iter().flatten() {
            let Some(chain) = snapshot.chain(id.as_str()) else { continue };
            cut.add(hashed(CHAIN, id.as_str()), chain.generation(), |name| {
                let config = chain.config().map(|config| config.value().clone());
                split(name, &ChainPart { id: id.clone(), config: config.map_err(Clone::clone) })
            });
        }
        let telemetry = snapshot.telemetry();
        let names = telemetry.names();
        cut.add(single(TELEMETRY), names.generation(), |name| split(name, names.value()));
        for family in names.value().iter().flatten().filter_map(|name| telemetry.family(name)) {
            let name = hashed(FAMILY, &family.value().name);
            cut.add(name, family.generation(), |name| split(name, family.value()));
        }
        let status = snapshot.status();
        // Its parts are cut together: a change of the number of workers may change all.
        cut.add(single(STATE), status.generation(), |name| match status.value() {
            Ok(state) => state_parts(name, state, &mut self.buckets),
            Err(reason) => split(name, &StateHead { chains: Err(reason.clone()) }),
        });
        self.values = cut.values;
        cut.parts
    }
}

/// The parts of a snapshot that is being cut.
struct Cut {
    before: HashMap<PartName, Cached>,
    values: HashMap<PartName, Cached>,
    parts: Parts,
}

impl Cut {
    /// Adds the parts of a value, which are made unless they are known.
    fn add(
        &mut self,
        name: PartName,
        generation: Generation,
        cut: impl FnOnce(&PartName) -> Parts,
    ) {
        let cached = match self.before.remove(&name) {
            Some(cached) if cached.generation == generation => cached,
            _ => Cached { generation, parts: cut(&name) },
        };
        self.parts.extend(cached.parts.iter().map(|(name, part)| (name.clone(), part.clone())));
        self.values.insert(name, cached);
    }
}

fn state_parts(name: &PartName, state: &RelayerState, buckets: &mut usize) -> Parts {
    let count = state.workers.len();
    let is_too_many = count > *buckets * WORKERS * TOLERANCE;
    let is_too_few = *buckets > 1 && count * TOLERANCE < *buckets * WORKERS;
    if is_too_many || is_too_few {
        *buckets = (count / WORKERS).next_power_of_two().min(MAX_BUCKETS);
    }
    let mut sorted: BTreeMap<usize, Vec<&Worker>> = BTreeMap::new();
    for worker in &state.workers {
        sorted.entry(bucket(&worker.object, *buckets)).or_default().push(worker);
    }
    let mut parts = split(name, &StateHead { chains: Ok(state.chains.clone()) });
    for (bucket, in_bucket) in sorted {
        parts.append(&mut split(&workers(bucket), &in_bucket));
    }
    parts
}

/// Returns the bucket of a worker. Workers that are equal in the order of the state are in the
/// same one, so that it keeps their own order.
fn bucket(object: &Object, buckets: usize) -> usize {
    let mut hasher = blake3::Hasher::new();
    for text in object.order_key() {
        hasher.update(text.as_bytes());
    }
    let hash = hasher.finalize();
    usize::from(u16::from_le_bytes([hash.as_bytes()[0], hash.as_bytes()[1]])) % buckets
}
