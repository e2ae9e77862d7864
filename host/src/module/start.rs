//! What an instance of a component begins with, before it is asked: read from the
//! component, without making one.

use wasmparser::{Data, FromReader, MemoryType, Parser, Payload, SectionLimited, Table, TableInit};

use super::engine::CORE_INSTANCES;

/// The items of tables with the bytes that say what they and globals begin with and
/// where segments are to be, and the bytes of memories, with which instances begin where that is not interrupted:
/// some tenths of a millisecond.
const MOST_ITEMS: u64 = 20_000;
const MOST_DATA: u64 = 8 << 20;

/// What an instance begins with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// The bytes of its memories, all of them together: each of its core modules is
    /// taken to be there once.
    pub(super) memory: u64,
    /// Whether it may take long: where a core module in it, however deep, has a
    /// function that is called then, or where much is put into tables and memories.
    pub(super) is_long: bool,
}

impl Start {
    pub(super) fn of(component: &[u8]) -> Self {
        let (mut memory, mut calls) = (0_u64, false);
        let (mut instances, mut nested) = (0_u64, 0_u64);
        let (mut items, mut data) = (0_u64, 0_u64);
        for part in Parser::new(0).parse_all(component) {
            match part {
                Ok(Payload::StartSection { .. }) | Err(_) => calls = true,
                Ok(Payload::InstanceSection(section)) => instances += u64::from(section.count()),
                Ok(Payload::ComponentInstanceSection(section)) => {
                    nested += u64::from(section.count());
                }
                Ok(Payload::MemorySection(section)) => add(&mut memory, section, bytes),
                Ok(Payload::TableSection(section)) => {
                    add_size(&mut items, &section);
                    add(&mut items, section, filled);
                }
                // Each of them may be computed.
                Ok(Payload::ElementSection(section)) => add_size(&mut items, &section),
                Ok(Payload::GlobalSection(section)) => add_size(&mut items, &section),
                Ok(Payload::DataSection(section)) => {
                    add(&mut items, section.clone(), offset);
                    add(&mut data, section, length);
                }
                Ok(_) => {}
            }
        }
        // What is in a component is there as often as that is.
        if nested > 1 {
            instances = CORE_INSTANCES.into();
        }
        // Each core instance may be one of all that.
        let long = |each: u64, most| instances.saturating_mul(each) > most;
        Self { memory, is_long: calls || long(items, MOST_ITEMS) || long(data, MOST_DATA) }
    }
}

/// Adds what each entry of a section comes to.
fn add<'a, T: FromReader<'a>>(sum: &mut u64, section: SectionLimited<'a, T>, of: fn(&T) -> u64) {
    let entries = section.into_iter().map_while(Result::ok);
    *sum = entries.map(|entry| of(&entry)).fold(*sum, u64::saturating_add);
}

/// Adds the bytes of a section: what it takes to compute what it says is no more.
fn add_size<T>(sum: &mut u64, section: &SectionLimited<'_, T>) {
    let range = section.range();
    *sum = sum.saturating_add(range.end - range.start);
}

fn bytes(memory: &MemoryType) -> u64 {
    memory.initial.saturating_mul(1 << memory.page_size_log2.unwrap_or(16).min(16))
}

/// The items that a table has from the beginning, where they are not null.
fn filled(table: &Table<'_>) -> u64 {
    match table.init {
        TableInit::RefNull => 0,
        TableInit::Expr(_) => table.ty.initial,
    }
}

/// The bytes of a segment that say where it is to be.
fn offset(segment: &Data<'_>) -> u64 {
    (segment.range.end - segment.range.start).saturating_sub(length(segment))
}

fn length(segment: &Data<'_>) -> u64 {
    segment.data.len() as u64
}

#[cfg(test)]
mod tests {
    use super::Start;
    use crate::module::DEFAULT_MODULE;

    /// A component with so many instances of a core module that has this.
    fn with(core: &str, instances: usize) -> Start {
        let made = "(core instance (instantiate $m))".repeat(instances);
        let text = format!("(component (core module $m (func $f) {core}) {made})");
        Start::of(&wat::parse_str(text).unwrap())
    }

    /// The same, in a component that is in a component so many times.
    fn nested(core: &str, instances: usize, times: usize) -> Start {
        let made = "(core instance (instantiate $m))".repeat(instances);
        let times = "(instance (instantiate $c))".repeat(times);
        let inner = format!("(component $c (core module $m (func $f) {core}) {made})");
        Start::of(&wat::parse_str(format!("(component {inner} {times})")).unwrap())
    }

    fn elements(count: usize) -> String {
        format!("(table 20000 funcref) (elem (i32.const 0) func {})", "$f ".repeat(count))
    }

    #[test]
    fn the_apis_module_begins_at_once() {
        assert!(!Start::of(DEFAULT_MODULE).is_long);
    }

    #[test]
    fn memories_are_summed() {
        let two = "(memory 2) (memory 3 9)";
        assert_eq!(with(two, 1), Start { memory: 5 << 16, is_long: false });
        let more = format!("(component (core module {two}) (core module (memory 1)))");
        assert_eq!(Start::of(&wat::parse_str(more).unwrap()).memory, 6 << 16);
        let most = "(memory i64 0x1000000000000) (memory i64 0x1000000000000)";
        assert_eq!(with(most, 0).memory, u64::MAX);
    }

    #[test]
    fn functions_that_are_called_at_once_may_take_long() {
        assert!(with("(start $f)", 1).is_long);
        assert!(nested("(start $f)", 1, 1).is_long);
        assert!(!with("", 1).is_long);
        // What cannot be read may be anything.
        assert!(Start::of(&DEFAULT_MODULE[..DEFAULT_MODULE.len() / 2]).is_long);
    }

    #[test]
    fn what_is_put_into_tables_may_take_long() {
        assert!(!with(&elements(19_900), 1).is_long);
        assert!(with(&elements(10_001), 2).is_long);
        assert!(!with("(table 20001 funcref)", 2).is_long);
        assert!(with("(table 20001 funcref (ref.func $f)) (elem declare func $f)", 1).is_long);
    }

    #[test]
    fn what_globals_and_places_are_computed_from_may_take_long() {
        let global = |steps: usize| {
            let more = "i32.const 1 i32.add ".repeat(steps);
            format!("(global i32 i32.const 0 {more})")
        };
        assert!(!with(&global(3_000), 2).is_long);
        assert!(with(&global(3_000), 3).is_long);
        let more = "i32.const 1 i32.add ".repeat(3_000);
        let data = format!("(memory 1) (data (offset i32.const 0 {more}) \"a\")");
        assert!(!with(&data, 2).is_long);
        assert!(with(&data, 3).is_long);
    }

    #[test]
    fn what_is_put_into_memories_may_take_long() {
        let data = |pages: usize| {
            let bytes = "a".repeat(pages << 16);
            format!("(memory {pages}) (data (i32.const 0) \"{bytes}\")")
        };
        assert!(!with(&data(64), 2).is_long);
        assert!(with(&data(64), 3).is_long);
    }

    /// However many core instances a component seems to have.
    #[test]
    fn components_in_components_count_as_often_as_they_are_there() {
        assert!(!nested(&elements(9_000), 2, 1).is_long);
        assert!(nested(&elements(9_000), 2, 2).is_long);
        assert!(!nested(&elements(280), 2, 2).is_long);
    }
}
