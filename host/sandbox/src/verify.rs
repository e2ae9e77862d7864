//! Verifies that the pool resets its slots: before every Nth run, an instance is
//! compared with the initial image of its module.
//!
//! Isolation between requests rests on the reset of the slot that an instance leaves
//! behind. A fault in the reset (in the engine, the kernel or the hardware) is not
//! visible elsewhere, so a sample of the slots is checked while the server runs:
//!
//! | data | check |
//! |---|---|
//! | memories | a fresh instance is interrupted before its first instruction; the engine's core dump gives access to them. Their initial bytes have the digest of the reference image, and the bytes by which they can grow, as far as any instance of the engine has grown, are zero |
//! | globals | the same core dump: they have the values of the reference image |
//! | tables | a module of the host's own, with a table in the same pool, finds null in each element |
//!
//! The reference image is the one on which two slots agree at the first check. The slot
//! of an instance that differs is retired: nothing runs in it again. When no spare slot
//! is left, the engine runs nothing at all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use relayer_rest_state::Snapshot;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tracing::{Span, error, warn};
use wasm_encoder::{
    BlockType, CodeSection, ExportKind, ExportSection, Function, FunctionSection, RefType,
    TableSection, TableType, TypeSection, ValType,
};
use wasmtime::{AsContextMut, Memory, Store, UpdateDeadline, Val, WasmCoreDump};

use super::call_error::CallError;
use super::engine_config::SPARE_SLOTS;
use super::guest_time::GuestTime;
use super::instance::Instantiator;
use super::limiter::Limiter;
use super::read_set::ReadSet;
use super::request::GuestRequest;
use super::store::StoreData;

/// The name under which the probe exports its function.
const PROBE: &str = "find";

/// The checks of an engine, and the slots that failed one.
pub(super) struct ResetVerifier {
    /// The number of runs for each check; 0 for no checks.
    every: u64,
    runs: AtomicU64,
    passed: AtomicU64,
    failed: AtomicU64,
    /// The instances in retired slots, which keep these slots from being used again.
    retired: Mutex<Vec<Retired>>,
    probe: OnceLock<Option<wasmtime::Module>>,
}

/// An instance that is kept so that its slot is not used again.
#[expect(dead_code, reason = "it is kept for its slot, and nothing reads it")]
enum Retired {
    Module(Store<StoreData>),
    Probe(Store<()>),
}

/// Counters of the checks that new instances have the initial image of their module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResetStatus {
    /// The number of checks that found no data of an earlier instance.
    pub passed: u64,
    /// The number of checks that found data of an earlier instance.
    pub failed: u64,
}

/// The reference image of a module cannot be determined: its instance cannot be inspected
/// now, or no two slots agree.
struct Undecided;

/// The initial data of a module's instances.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InitialImage {
    /// The size of each memory, in bytes, and its digest.
    memories: Vec<(usize, blake3::Hash)>,
    /// The bits of each global that is a number.
    globals: Vec<Option<u128>>,
}

/// A difference from the initial image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Residue {
    #[error("memory {0} differs from the module's initial image")]
    Memory(usize),
    #[error("memory {0} grows by bytes that are not zero")]
    Growth(usize),
    #[error("global {0} differs from the module's initial image")]
    Global(usize),
    #[error("a table has an element that is not null")]
    Table,
}

impl ResetVerifier {
    /// Creates a verifier that checks one in `every` runs, or none if that is 0.
    pub(super) fn new(every: u32) -> Self {
        Self {
            every: every.into(),
            runs: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            retired: Mutex::default(),
            probe: OnceLock::new(),
        }
    }

    /// Counts a run, and returns whether it must begin with a check.
    pub(super) fn is_due(&self) -> bool {
        self.every > 0 && (self.runs.fetch_add(1, Relaxed) + 1).is_multiple_of(self.every)
    }

    pub(super) fn status(&self) -> ResetStatus {
        ResetStatus { passed: self.passed.load(Relaxed), failed: self.failed.load(Relaxed) }
    }

    /// Retires a slot, and returns an error if no spare one is left.
    fn retire(&self, slot: Retired) -> Result<(), CallError> {
        // Nothing that panics is done while it is held.
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.push(slot);
        if retired.len() < SPARE_SLOTS as usize { Ok(()) } else { Err(no_slot_left()) }
    }

    /// Returns an error if no spare slot is left, so that nothing may run any more.
    pub(super) fn check_slots(&self) -> Result<(), CallError> {
        // This takes no lock for each run: the number of failures only grows.
        if self.failed.load(Relaxed) < u64::from(SPARE_SLOTS) {
            return Ok(());
        }
        Err(no_slot_left())
    }

    fn probe(&self, engine: &wasmtime::Engine, elements: u32) -> Option<&wasmtime::Module> {
        let compile = || wasmtime::Module::new(engine, probe(elements)).ok();
        self.probe.get_or_init(compile).as_ref()
    }

    /// Checks the slots that the module's next instance will have. Returns when they are
    /// clean, or cannot be checked. `reference` is the module's initial image, once it is
    /// known.
    pub(super) async fn verify(
        &self,
        instances: &Instantiator,
        reference: &OnceCell<InitialImage>,
        snapshot: &Arc<Snapshot>,
        time: &Arc<GuestTime>,
    ) -> Result<(), CallError> {
        let inspector = Inspector { instances, snapshot, time };
        loop {
            self.check_slots()?;
            // The tables are first: an instance of the module would occupy these slots.
            let finding = match self.probe_tables(instances) {
                Some(store) => Some((Retired::Probe(store), Residue::Table)),
                None => match inspector.inspect(reference).await {
                    None => return Ok(()),
                    Some((store, result)) => {
                        result.err().map(|residue| (Retired::Module(store), residue))
                    }
                },
            };
            let Some((slot, residue)) = finding else {
                self.passed.fetch_add(1, Relaxed);
                return Ok(());
            };
            self.failed.fetch_add(1, Relaxed);
            error!(
                module = instances.info.label(),
                %residue,
                "isolation failure: data of an earlier request found in a slot, which is retired; report this as a security issue"
            );
            self.retire(slot)?;
        }
    }

    /// Probes as many tables of the pool as an instance has. Returns the store of a probe
    /// whose table has an element, if there is one.
    fn probe_tables(&self, instances: &Instantiator) -> Option<Store<()>> {
        let tables = instances.pre.component().resources_required()?.num_tables;
        // All probes exist at once: a dropped one would leave its slot to the next.
        let probes: Vec<_> = (0..tables).map_while(|_| self.probe_table(instances)).collect();
        probes.into_iter().find_map(|(store, is_empty)| (!is_empty).then_some(store))
    }

    /// Returns a probe, and whether its table is empty.
    fn probe_table(&self, instances: &Instantiator) -> Option<(Store<()>, bool)> {
        let Instantiator { engine, options, peaks, .. } = instances;
        let elements = options.limits.table;
        let module = self.probe(engine, elements)?;
        let mut store = Store::new(engine, ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = wasmtime::Instance::new(&mut store, module, &[]).ok()?;
        let find = instance.get_typed_func::<u32, u32>(&mut store, PROBE).ok()?;
        let peak = peaks.table.load(Relaxed);
        let count = u32::try_from(peak).unwrap_or(u32::MAX).min(elements);
        let is_empty = find.call(&mut store, count).ok()? == 0;
        Some((store, is_empty))
    }
}

/// Inspects fresh instances of a module.
struct Inspector<'a> {
    instances: &'a Instantiator,
    snapshot: &'a Arc<Snapshot>,
    time: &'a Arc<GuestTime>,
}

impl Inspector<'_> {
    /// Compares a fresh instance with the initial image. Returns `None` if that is not
    /// possible: if no slot is free, or if the initial data depends on the state.
    async fn inspect(
        &self,
        reference: &OnceCell<InitialImage>,
    ) -> Option<(Store<StoreData>, Result<(), Residue>)> {
        let (mut store, dump) = self.interrupted().await?;
        let image = InitialImage::new(&mut store, &dump);
        let agreed = || self.agreed_image(&image);
        let reference = reference.get_or_try_init(agreed).await.ok()?;
        let result = reference.compare(&image);
        // Later instances get the bytes beyond the initial ones when they grow.
        let peak = self.instances.peaks.memory.load(Relaxed);
        let result = result.and_then(|()| check_growth(&mut store, &dump, peak));
        Some((store, result))
    }

    /// Returns the image on which two of three slots agree: the first one may have data
    /// of an earlier module. The slots of all three are in use at the same time.
    async fn agreed_image(&self, first: &InitialImage) -> Result<InitialImage, Undecided> {
        let mut images = vec![first.clone()];
        let mut stores = Vec::new();
        while images.len() < 3 {
            let (mut store, dump) = self.interrupted().await.ok_or(Undecided)?;
            let image = InitialImage::new(&mut store, &dump);
            if images.contains(&image) {
                return Ok(image);
            }
            stores.push(store);
            images.push(image);
        }
        warn!(
            module = self.instances.info.label(),
            "isolation not checked: three new instances have different data; either the module starts with random data, or a slot has data of an earlier request"
        );
        Err(Undecided)
    }

    /// Interrupts an instance before its first instruction. Returns its store and the
    /// engine's core dump.
    async fn interrupted(&self) -> Option<(Store<StoreData>, WasmCoreDump)> {
        let target = PathAndQuery::from_static("/");
        let request = Arc::new(GuestRequest::new(Method::GET, target, HeaderMap::new()));
        let snapshot = Arc::clone(self.snapshot);
        let time = Arc::clone(self.time);
        let instances = self.instances;
        let mut store = instances.store(time, Arc::clone(&request), snapshot, Span::none());
        let handle = instances.instantiate(&mut store).await.ok()?;
        if *store.data().snapshot.reads() != ReadSet::default() {
            return None;
        }
        store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Interrupt));
        store.set_epoch_deadline(0);
        let error = handle.call(&mut store, &request).await.err()?;
        let dump = error.downcast::<WasmCoreDump>().ok()?;
        Some((store, dump))
    }
}

impl InitialImage {
    fn new(store: &mut Store<StoreData>, dump: &WasmCoreDump) -> Self {
        let memory = |memory: &Memory| {
            let data = memory.data(&*store);
            (data.len(), blake3::hash(data))
        };
        let memories = dump.memories().iter().map(memory).collect();
        let globals = dump.globals().iter().map(|global| bits(&global.get(store.as_context_mut())));
        Self { memories, globals: globals.collect() }
    }

    /// Returns an error for a memory or global of the other image that differs.
    fn compare(&self, other: &Self) -> Result<(), Residue> {
        let differs = |(place, is_same)| if is_same { None } else { Some(place) };
        let memories = self.memories.iter().zip(&other.memories).map(|(a, b)| a == b);
        let globals = self.globals.iter().zip(&other.globals).map(|(a, b)| a == b);
        if let Some(place) = memories.enumerate().find_map(differs) {
            return Err(Residue::Memory(place));
        }
        globals.enumerate().find_map(differs).map_or(Ok(()), |place| Err(Residue::Global(place)))
    }
}

/// Grows each memory as far as instances have grown at most, and checks that the new
/// bytes are zero.
fn check_growth(
    store: &mut Store<StoreData>,
    dump: &WasmCoreDump,
    peak: usize,
) -> Result<(), Residue> {
    // The engine's pool is a sufficient bound for an instance in which nothing runs.
    store.data_mut().limiter = Limiter::unlimited();
    let initial: usize = dump.memories().iter().map(|memory| memory.data_size(&*store)).sum();
    let growth = peak.saturating_sub(initial) as u64;
    for (place, memory) in dump.memories().iter().enumerate() {
        let before = memory.data_size(&*store);
        let page = memory.page_size(&*store);
        let size = memory.size(&*store);
        let kind = memory.ty(&*store);
        let room = kind.maximum().map_or(u64::MAX, |max| max.saturating_sub(size));
        // If it cannot grow now, neither could an instance.
        memory.grow(&mut *store, (growth / page).min(room)).ok();
        if memory.data(&*store)[before..].iter().any(|byte| *byte != 0) {
            return Err(Residue::Growth(place));
        }
    }
    Ok(())
}

/// Returns the bits of a number. References are checked in the tables that hold them.
fn bits(value: &Val) -> Option<u128> {
    match value {
        Val::I32(value) => Some(u128::from(value.cast_unsigned())),
        Val::I64(value) => Some(u128::from(value.cast_unsigned())),
        Val::F32(bits) => Some(u128::from(*bits)),
        Val::F64(bits) => Some(u128::from(*bits)),
        Val::V128(value) => Some(value.as_u128()),
        _ => None,
    }
}

fn no_slot_left() -> CallError {
    CallError::Host(format!(
        "isolation failure: data of earlier requests found in {SPARE_SLOTS} slots; no module runs here until a restart"
    ))
}

/// Returns a module with one table of this many elements, and a function that tells
/// whether one of the first N is not null.
fn probe(elements: u32) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], [ValType::I32]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut tables = TableSection::new();
    tables.table(TableType {
        element_type: RefType::FUNCREF,
        minimum: elements.into(),
        maximum: None,
        table64: false,
        shared: false,
    });
    let mut exports = ExportSection::new();
    exports.export(PROBE, ExportKind::Func, 0).export("table", ExportKind::Table, 0);
    let mut find = Function::new([]);
    let mut code = find.instructions();
    // From the last to the first: while (n != 0) if (!null(table[--n])) return 1; 0
    code.block(BlockType::Empty).loop_(BlockType::Empty);
    code.local_get(0).i32_eqz().br_if(1);
    code.local_get(0).i32_const(1).i32_sub().local_tee(0).table_get(0).ref_is_null().br_if(0);
    code.i32_const(1).return_().end().end().i32_const(0).end();
    let mut bodies = CodeSection::new();
    bodies.function(&find);
    let mut module = wasm_encoder::Module::new();
    module.section(&types).section(&functions).section(&tables).section(&exports);
    module.section(&bodies);
    module.finish()
}

#[cfg(test)]
mod tests {
    use super::{InitialImage, ResetVerifier, Residue, probe};

    #[test]
    fn one_in_n_runs_is_checked() {
        let due = |every| {
            let verifier = ResetVerifier::new(every);
            (0..6).map(|_| verifier.is_due()).collect::<Vec<_>>()
        };
        assert_eq!(due(0), [false; 6]);
        assert_eq!(due(1), [true; 6]);
        assert_eq!(due(3), [false, false, true, false, false, true]);
    }

    #[test]
    fn an_image_differs_in_a_memory_or_a_global() {
        let image = |memory: &[u8], global: u128| InitialImage {
            memories: vec![(0, blake3::hash(b"")), (memory.len(), blake3::hash(memory))],
            globals: vec![None, Some(global)],
        };
        let reference = image(b"abc", 7);
        assert_eq!(reference.compare(&image(b"abc", 7)), Ok(()));
        assert_eq!(reference.compare(&image(b"abd", 7)), Err(Residue::Memory(1)));
        assert_eq!(reference.compare(&image(b"abc", 8)), Err(Residue::Global(1)));
    }

    #[test]
    fn the_probe_finds_an_element_that_is_not_null() {
        let engine = wasmtime::Engine::default();
        let probe = wasmtime::Module::new(&engine, probe(8)).unwrap();
        let mut store = wasmtime::Store::new(&engine, ());
        let instance = wasmtime::Instance::new(&mut store, &probe, &[]).unwrap();
        let find = instance.get_typed_func::<u32, u32>(&mut store, super::PROBE).unwrap();
        assert_eq!(find.call(&mut store, 8).unwrap(), 0);
        let table = instance.get_table(&mut store, "table").unwrap();
        table.set(&mut store, 5, (*find.func()).into()).unwrap();
        for (count, found) in [(0, 0), (5, 0), (6, 1), (8, 1)] {
            assert_eq!(find.call(&mut store, count).unwrap(), found);
        }
    }
}
