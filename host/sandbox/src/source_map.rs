//! The source locations of a component's code, from its debug information (DWARF).
//!
//! Hostile debug information can take much time and memory to read. It is therefore read
//! with the compilation, in the compiler process; the result is bounded, part of the
//! artefact, and decoded when the module traps for the first time.

use std::collections::HashMap;
use std::sync::OnceLock;

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload};

/// The maximum size of the debug information that is read, in bytes.
const MAX_DEBUG_INFO: usize = 64 << 20;

/// The maximum number of ranges of instructions with a location of their own.
const MAX_RANGES: usize = 1 << 17;

/// The maximum size of all names of functions and files, in bytes.
const MAX_NAMES: usize = 4 << 20;

/// The maximum number of functions at one location, by inlining.
const MAX_POSITIONS: usize = 16;

/// The folders of the standard library's source, as the compiler names them.
const STD_FOLDERS: [&str; 2] = ["/rustc/", "/rustlib/src/rust/library/"];

/// The source locations of a component's instructions.
#[derive(Debug, Default)]
pub(super) struct SourceMap {
    /// The table, as the artefact has it.
    encoded: Vec<u8>,
    table: OnceLock<Table>,
}

/// A position in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition<'a> {
    /// The mangled name of the function.
    pub(super) function: Option<&'a str>,
    pub(super) file: &'a str,
    pub(super) line: u32,
    /// Whether the file belongs to Rust's standard library.
    pub(super) is_std: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Table {
    names: Vec<String>,
    /// In ascending order.
    ranges: Vec<CodeRange>,
}

/// A range of instructions, by their offsets in the component.
#[derive(Debug, Serialize, Deserialize)]
struct CodeRange {
    start: u32,
    end: u32,
    /// The function that was inlined last comes first.
    positions: Vec<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// The indices of names.
    function: Option<u32>,
    file: u32,
    line: u32,
}

impl SourceMap {
    /// Creates a map from the result of [`extract`].
    pub(super) fn new(encoded: Vec<u8>) -> Self {
        Self { encoded, table: OnceLock::new() }
    }

    /// Returns the positions of the instruction at this offset of the component, the
    /// function that was inlined last first; empty if they are not known.
    pub(super) fn find(&self, offset: usize) -> Vec<SourcePosition<'_>> {
        let table =
            self.table.get_or_init(|| postcard::from_bytes(&self.encoded).unwrap_or_default());
        let Ok(offset) = u32::try_from(offset) else { return Vec::new() };
        let next = table.ranges.partition_point(|range| range.start <= offset);
        let range = table.ranges[..next].last().filter(|range| offset < range.end);
        let positions = range.iter().flat_map(|range| &range.positions);
        positions.map(|position| table.position(*position)).collect()
    }
}

impl Table {
    fn position(&self, position: Position) -> SourcePosition<'_> {
        let file = self.name(position.file);
        SourcePosition {
            function: position.function.map(|name| self.name(name)),
            file,
            line: position.line,
            is_std: STD_FOLDERS.iter().any(|folder| file.contains(folder)),
        }
    }

    fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", String::as_str)
    }
}

/// Reads the locations from the debug information of all modules in a component. Returns
/// nothing if there is none. Locations beyond the bounds are left out.
pub(super) fn extract(component: &[u8]) -> Vec<u8> {
    let mut builder = TableBuilder::default();
    let mut sections = DebugSections::default();
    for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
        match payload {
            // Sections of a module follow; the module before is complete.
            Payload::Version { .. } => builder.add(&std::mem::take(&mut sections)),
            Payload::CodeSectionStart { range, .. } => sections.code_start = range.start,
            Payload::CustomSection(section) if section.name().starts_with(".debug_") => {
                sections.size += section.data().len();
                sections.data.insert(section.name(), section.data());
            }
            _ => {}
        }
    }
    builder.add(&sections);
    if builder.table.ranges.is_empty() {
        return Vec::new();
    }
    builder.table.ranges.sort_by_key(|range| range.start);
    postcard::to_allocvec(&builder.table).unwrap_or_default()
}

/// The debug information of a module.
#[derive(Default)]
struct DebugSections<'a> {
    /// The offset of its code section in the component; addresses are relative to it.
    code_start: u64,
    data: HashMap<&'a str, &'a [u8]>,
    size: usize,
}

#[derive(Default)]
struct TableBuilder {
    table: Table,
    indices: HashMap<String, u32>,
    names_size: usize,
    debug_size: usize,
}

impl TableBuilder {
    /// Adds the locations of a module, as far as its debug information is valid.
    fn add(&mut self, sections: &DebugSections<'_>) {
        self.debug_size += sections.size;
        if sections.size == 0 || self.debug_size > MAX_DEBUG_INFO {
            return;
        }
        let section = |name: &str| sections.data.get(name).copied().unwrap_or_default();
        let load = |id: addr2line::gimli::SectionId| {
            Ok::<_, addr2line::gimli::Error>(EndianSlice::new(section(id.name()), LittleEndian))
        };
        let context = Dwarf::load(load).and_then(Context::from_dwarf);
        if let Ok(context) = context {
            self.add_ranges(&context, sections.code_start);
        }
    }

    fn add_ranges(
        &mut self,
        context: &Context<EndianSlice<'_, LittleEndian>>,
        code_start: u64,
    ) -> Option<()> {
        // Functions that the linker has removed are at the end of the address space.
        let addresses = context.find_location_range(1, u64::from(u32::MAX) - 2).ok()?;
        for (address, length, _) in addresses {
            let start = u32::try_from(address.checked_add(code_start)?).ok()?;
            let end = u32::try_from(u64::from(start).checked_add(length)?).ok()?;
            let positions = self.positions(context, address)?;
            let ranges = &mut self.table.ranges;
            let is_full = ranges.len() == MAX_RANGES;
            match ranges.last_mut() {
                Some(last) if last.end == start && last.positions == positions => last.end = end,
                _ if is_full => return None,
                _ => ranges.push(CodeRange { start, end, positions }),
            }
        }
        Some(())
    }

    fn positions(
        &mut self,
        context: &Context<EndianSlice<'_, LittleEndian>>,
        address: u64,
    ) -> Option<Vec<Position>> {
        let mut frames = context.find_frames(address).skip_all_loads().ok()?;
        let mut positions = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let Some(location) = frame.location else { continue };
            let function = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let function = match function {
                Some(name) => Some(self.index(&name)?),
                None => None,
            };
            let file = self.index(location.file.unwrap_or("?"))?;
            positions.push(Position { function, file, line: location.line.unwrap_or_default() });
            if positions.len() == MAX_POSITIONS {
                break;
            }
        }
        Some(positions)
    }

    /// Returns the index of a name, or `None` if there are too many.
    fn index(&mut self, name: &str) -> Option<u32> {
        if let Some(index) = self.indices.get(name) {
            return Some(*index);
        }
        self.names_size += name.len();
        let index = u32::try_from(self.table.names.len()).ok()?;
        if self.names_size > MAX_NAMES {
            return None;
        }
        self.table.names.push(name.to_owned());
        self.indices.insert(name.to_owned(), index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::{CodeRange, Position, SourceMap, Table, extract};

    #[test]
    fn positions_are_found_by_the_offset_of_an_instruction() {
        let position = |function, file, line| Position { function, file, line };
        let range = |start, end, positions| CodeRange { start, end, positions };
        let names = ["add", "src/lib.rs", "/rustc/88d9/library/core/src/option.rs"];
        let table = Table {
            names: names.map(str::to_owned).into(),
            ranges: vec![
                range(10, 20, vec![position(None, 2, 5), position(Some(0), 1, 7)]),
                range(20, 25, vec![position(Some(9), 1, 8)]),
            ],
        };
        let map = SourceMap::new(postcard::to_allocvec(&table).unwrap());
        for offset in [0, 9, 25, usize::MAX] {
            assert!(map.find(offset).is_empty(), "{offset}");
        }
        let [inlined, function] = map.find(19)[..] else { panic!("{:?}", map.find(19)) };
        assert!((inlined.line, inlined.is_std) == (5, true) && inlined.function.is_none());
        assert_eq!((function.function, function.file), (Some("add"), "src/lib.rs"));
        // An index that is not in the table.
        assert_eq!(map.find(20)[0].function, Some(""));
        assert!(SourceMap::new(vec![0xff; 9]).find(10).is_empty());
    }

    #[test]
    fn invalid_debug_information_is_ignored() {
        for bytes in
            ["", "\\00", "\\ff\\ff\\ff\\ff\\ff\\ff\\ff\\ff", "\\04\\00\\00\\00\\05\\00\\01\\08"]
        {
            let sections = ["abbrev", "info", "line", "ranges", "str"]
                .map(|name| format!(r#"(@custom ".debug_{name}" "{bytes}")"#));
            let module = format!("(module {} (func nop))", sections.concat());
            let component = wat::parse_str(format!("(component (core {}", &module[1..]) + ")");
            assert_eq!(extract(&component.unwrap()), b"", "{bytes}");
        }
        assert_eq!(extract(b"not wasm"), b"");
    }
}
