//! The cost of each section of a core module for an instance. The sizes are those of the
//! engine's own structures, rounded up; `tests/cost` measures that they suffice.

use wasmparser::{
    CustomSectionReader, Data, DataKind, Element, ElementItems, ElementKind, FromReader,
    KnownCustom, MemoryType, Name, Payload, SectionLimited, Table, TableInit,
};

use super::{ELEMENT_BYTES, InstanceCost, Kind};
use crate::engine_config::MAX_BACKTRACE_FRAMES;

/// An instance with its context and its entries in the store.
const INSTANCE: u64 = 2048;
const INSTANCE_STEPS: u64 = 100;
/// A memory and its slot in the pool, without its pages.
const MEMORY: u64 = 512;
const MEMORY_STEPS: u64 = 200;
/// A table, without its elements.
const TABLE: u64 = 128;
/// An import: in the context, and in the list for instantiating.
const IMPORT: u64 = 96;
/// A reference to a function that can be called from outside its module.
const FUNCTION: u64 = 32;
const GLOBAL: u64 = 16;
const TAG: u64 = 32;
/// A passive segment, and each of its elements.
const SEGMENT: u64 = 128;
const SEGMENT_STEPS: u64 = 4;
const SEGMENT_ELEMENT: u64 = 16;
const DATA_SEGMENT: u64 = 32;
/// When an instance traps, the engine copies the name of each frame's function, for the
/// message and for the core dump.
const NAME_COPIES: u64 = 2 * MAX_BACKTRACE_FRAMES as u64;

/// A core module while it is being read.
#[derive(Debug, Default)]
pub(super) struct CoreModule {
    cost: InstanceCost,
    functions: u64,
    /// The maximum number of functions that can be referred to.
    references: u64,
    /// The longest name of a function, in bytes.
    longest_name: u64,
}

impl CoreModule {
    pub(super) fn new() -> Self {
        let mut module = Self::default();
        module.cost.core_instances = 1;
        module.cost.add_host(Kind::Instances, 1, INSTANCE);
        module.cost.add_steps(INSTANCE_STEPS);
        module
    }

    pub(super) fn add(&mut self, payload: Payload<'_>) {
        let cost = &mut self.cost;
        match payload {
            Payload::StartSection { .. } => {
                cost.has_start = true;
                self.references = self.references.saturating_add(1);
            }
            Payload::ImportSection(section) => {
                let count = section.into_imports().take_while(Result::is_ok).count() as u64;
                cost.add_host(Kind::Imports, count, IMPORT);
                cost.add_steps(count);
            }
            Payload::FunctionSection(section) => self.functions = section.count().into(),
            Payload::ExportSection(section) => self.refer(section.count().into()),
            Payload::MemorySection(section) => each(section, |memory| {
                cost.memory = cost.memory.saturating_add(bytes(&memory));
                cost.add_host(Kind::Instances, 1, MEMORY);
                cost.add_steps(MEMORY_STEPS);
            }),
            Payload::TableSection(section) => {
                self.refer(size(&section));
                let cost = &mut self.cost;
                cost.add_steps(size(&section));
                each(section, |table| {
                    let elements = table.ty.initial.saturating_mul(ELEMENT_BYTES as u64);
                    cost.tables = cost.tables.saturating_add(elements);
                    cost.add_host(Kind::Globals, 1, TABLE);
                    cost.add_steps(filled(&table));
                });
            }
            Payload::TagSection(section) => {
                cost.add_host(Kind::Globals, section.count().into(), TAG);
            }
            Payload::GlobalSection(section) => {
                // An expression may compute each of them.
                cost.add_steps(size(&section));
                cost.add_host(Kind::Globals, section.count().into(), GLOBAL);
                self.refer(size(&section));
            }
            Payload::ElementSection(section) => {
                cost.add_steps(size(&section));
                each(section, |element| self.add_element(&element));
            }
            Payload::DataSection(section) => each(section, |data| self.add_data(&data)),
            Payload::CustomSection(section) => self.add_names(&section),
            _ => {}
        }
    }

    /// Returns the cost of an instance, after the module has been read.
    pub(super) fn finish(mut self) -> InstanceCost {
        let references = self.references.min(self.functions);
        self.cost.add_host(Kind::Functions, references, FUNCTION);
        self.cost.add_steps(references / 4);
        self.cost.add_host(Kind::Backtrace, NAME_COPIES, self.longest_name);
        self.cost
    }

    fn add_element(&mut self, element: &Element<'_>) {
        let count = match &element.items {
            ElementItems::Functions(functions) => functions.count(),
            ElementItems::Expressions(_, expressions) => expressions.count(),
        };
        self.refer(count.into());
        if matches!(element.kind, ElementKind::Passive) {
            self.cost.add_host(Kind::Segments, 1, SEGMENT);
            self.cost.add_host(Kind::Segments, count.into(), SEGMENT_ELEMENT);
            self.cost.add_steps(SEGMENT_STEPS + u64::from(count));
        }
    }

    fn add_data(&mut self, data: &Data<'_>) {
        let length = data.data.len() as u64;
        let range = &data.range;
        self.cost.add_host(Kind::Segments, 1, DATA_SEGMENT);
        // The rest of the segment computes its offset.
        self.cost.add_steps((range.end - range.start).saturating_sub(length));
        if matches!(data.kind, DataKind::Active { .. }) {
            self.cost.data = self.cost.data.saturating_add(length);
        }
    }

    fn add_names(&mut self, section: &CustomSectionReader<'_>) {
        let KnownCustom::Name(names) = section.as_known() else { return };
        for subsection in names.into_iter().map_while(Result::ok) {
            if let Name::Function(functions) = subsection {
                let lengths = functions.into_iter().map_while(Result::ok);
                self.longest_name = lengths
                    .map(|function| function.name.len() as u64)
                    .fold(self.longest_name, u64::max);
            }
        }
    }

    fn refer(&mut self, functions: u64) {
        self.references = self.references.saturating_add(functions);
    }
}

fn each<'a, T: FromReader<'a>>(section: SectionLimited<'a, T>, of: impl FnMut(T)) {
    section.into_iter().map_while(Result::ok).for_each(of);
}

/// Returns the size of a section, in bytes: evaluating its expressions takes no more
/// steps.
fn size<T>(section: &SectionLimited<'_, T>) -> u64 {
    let range = section.range();
    range.end - range.start
}

fn bytes(memory: &MemoryType) -> u64 {
    memory.initial.saturating_mul(1 << memory.page_size_log2.unwrap_or(16).min(16))
}

/// Returns the number of elements of a table that are written when it is created.
fn filled(table: &Table<'_>) -> u64 {
    match table.init {
        TableInit::RefNull => 0,
        TableInit::Expr(_) => table.ty.initial,
    }
}
