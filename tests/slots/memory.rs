//! The memory of this process, through `/proc/self`.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The size of a page, in bytes.
pub(crate) const PAGE: usize = 4096;

/// The number of bytes that are read at once, a multiple of the page size.
const CHUNK: usize = 256 * PAGE;

/// Returns the address ranges that this process can write to.
pub(crate) fn writable() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let ranges = maps.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).unwrap();
        fields.next()?.starts_with("rw-p").then(|| address(start)..address(end))
    });
    ranges.collect()
}

/// Finds the page that begins with this pattern, which also occurs at this distance from
/// its start.
pub(crate) fn find(pattern: &[u8], distance: usize) -> Option<usize> {
    find_page(|memory, address, page| {
        let mut there = vec![0; pattern.len()];
        let is_there = page.starts_with(pattern)
            && memory.read_exact_at(&mut there, (address + distance) as u64).is_ok()
            && there == pattern;
        is_there.then_some(address)
    })
}

/// Finds a page that begins a run of exactly `count` equal numbers other than 0, and
/// returns its address and the number.
pub(crate) fn find_repeated(count: usize) -> Option<(usize, u64)> {
    let size = size_of::<u64>();
    find_page(|memory, address, page| {
        let (number, _) = page.split_first_chunk()?;
        let is_repeated = *number != [0; 8] && page.chunks(size).all(|other| other == number);
        let mut all = vec![0; (count + 1) * size];
        if !is_repeated || memory.read_exact_at(&mut all, address as u64).is_err() {
            return None;
        }
        let repeated = all.chunks(size).take_while(|other| other == number).count();
        (repeated == count).then_some((address, u64::from_le_bytes(*number)))
    })
}

/// Returns the first result of `found` for a page of the writable memory.
fn find_page<T>(mut found: impl FnMut(&File, usize, &[u8]) -> Option<T>) -> Option<T> {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut chunk = vec![0; CHUNK];
    for range in writable() {
        for start in range.clone().step_by(CHUNK) {
            let chunk = &mut chunk[..CHUNK.min(range.end - start)];
            // The range may have been unmapped since.
            if memory.read_exact_at(chunk, start as u64).is_err() {
                continue;
            }
            let mut pages = (start..).step_by(PAGE).zip(chunk.chunks(PAGE));
            let found = pages.find_map(|(address, page)| found(&memory, address, page));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Reads a number from this process's memory.
pub(crate) fn read(address: usize) -> u64 {
    let mut number = [0; 8];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut number, address as u64).unwrap();
    u64::from_le_bytes(number)
}

/// Writes to this process's memory, without any check.
pub(crate) fn write(address: usize, bytes: &[u8]) {
    let memory = File::options().write(true).open("/proc/self/mem").unwrap();
    memory.write_all_at(bytes, address as u64).unwrap();
}
