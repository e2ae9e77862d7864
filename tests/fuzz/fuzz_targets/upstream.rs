#![no_main]

use relayer_rest_tests::fuzz;
use relayer_rest_tests::heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz::upstream_memory(&HEAP, data);
    fuzz::upstream(data);
});
