//! Components that try to exceed their limits, on every request.

use super::of_module;

/// Returns a module with this code as its handler, and further fields before it.
fn module(memory: &str, fields: &str, code: &str) -> Vec<u8> {
    module_with_allocator(memory, fields, "i32.const 65536", code)
}

/// Returns a module like [`module`], whose allocator is the code `allocate`.
fn module_with_allocator(memory: &str, fields: &str, allocate: &str, code: &str) -> Vec<u8> {
    of_module(&format!(
        r#"(module
            {fields}
            (memory (export "memory") {memory})
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                {allocate})
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                {code}))"#
    ))
}

/// Recurses endlessly.
#[must_use]
pub fn recursion() -> Vec<u8> {
    let fields = "(func $f (param i64 i64 i64) (result i32)
        (i32.add (call $f (local.get 0) (local.get 1) (local.get 2)) (i32.const 1)))";
    module("2", fields, "(call $f (i64.const 1) (i64.const 2) (i64.const 3))")
}

/// Grows its memory page by page, writes to each page, and traps when the memory cannot
/// grow any more.
#[must_use]
pub fn memory_bomb() -> Vec<u8> {
    let code = "(local $at i32)
        (loop $more
            (local.set $at (memory.grow (i32.const 1)))
            (if (i32.eq (local.get $at) (i32.const -1)) (then unreachable))
            (i32.store (i32.shl (local.get $at) (i32.const 16)) (i32.const -1))
            (br $more))
        unreachable";
    module("2", "", code)
}

/// Grows a table, and traps when the table cannot grow any more.
#[must_use]
pub fn table_bomb() -> Vec<u8> {
    let code = "(loop $more
            (if (i32.eq (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))
                (then unreachable))
            (br $more))
        unreachable";
    module("2", "(table $t 1 funcref)", code)
}

/// Responds with all of its memory as the body, 3 MiB.
#[must_use]
pub fn huge_body() -> Vec<u8> {
    let code = "(i32.store16 (i32.const 0) (i32.const 200))
        (i32.store (i32.const 12) (i32.const 0))
        (i32.store (i32.const 16) (i32.const 3145728))
        i32.const 0";
    module("48", "", code)
}

/// Responds with as many headers as fit into its memory, which all share the same bytes.
#[must_use]
pub fn endless_headers() -> Vec<u8> {
    headers(30_000, 1)
}

/// Responds with 100 headers of 1,000 bytes each.
#[must_use]
pub fn large_headers() -> Vec<u8> {
    headers(100, 1000)
}

/// Responds with `count` headers, each with a name of one byte and a value of `length`
/// bytes.
fn headers(count: u32, length: u32) -> Vec<u8> {
    let code = format!(
        "(local $left i32) (local $at i32)
        (memory.fill (i32.const 64) (i32.const 97) (i32.const 4096))
        (local.set $left (i32.const {count}))
        (local.set $at (i32.const 131072))
        (loop $more
            (i32.store (local.get $at) (i32.const 64))
            (i32.store offset=4 (local.get $at) (i32.const 1))
            (i32.store offset=8 (local.get $at) (i32.const 64))
            (i32.store offset=12 (local.get $at) (i32.const {length}))
            (local.set $at (i32.add (local.get $at) (i32.const 16)))
            (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        (i32.store16 (i32.const 0) (i32.const 200))
        (i32.store (i32.const 4) (i32.const 131072))
        (i32.store (i32.const 8) (i32.const {count}))
        i32.const 0"
    );
    module("16", "", &code)
}

/// Logs for as long as it may run, with lines that imitate the host's.
#[must_use]
pub fn log_flood() -> Vec<u8> {
    let fields = r#"(import "relayer:rest/log@0.1.0" "log" (func $log (param i32 i32 i32)))
        (data (i32.const 64) "a\0a2026-01-01T00:00:00Z  INFO relayer_rest: all is well\1b[2K\e2\80\ae")"#;
    let code = "(loop $more
            (call $log (i32.const 4) (i32.const 64) (i32.const 61))
            (br $more))
        unreachable";
    module("2", fields, code)
}

/// Runs correctly for a while, and then traps.
#[must_use]
pub fn trap_late() -> Vec<u8> {
    let code = "(local $left i32)
        (local.set $left (i32.const 100000))
        (loop $more
            (i32.store offset=1024 (i32.and (local.get $left) (i32.const 4092)) (local.get $left))
            (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
        unreachable";
    module("2", "", code)
}

/// Traps in the start function.
#[must_use]
pub fn trap_in_start() -> Vec<u8> {
    module("2", "(func $start unreachable) (start $start)", "i32.const 0")
}

/// Logs a message above the size limit in the start function.
#[must_use]
pub fn greedy_start() -> Vec<u8> {
    let fields = r#"(import "relayer:rest/log@0.1.0" "log" (func $log (param i32 i32 i32)))
        (func $start (call $log (i32.const 4) (i32.const 0) (i32.const 2097152)))
        (start $start)"#;
    module("40", fields, "i32.const 0")
}

/// Never ends in the start function.
#[must_use]
pub fn spin_in_start() -> Vec<u8> {
    module("2", "(func $start (loop br 0)) (start $start)", "i32.const 0")
}

/// Runs this code when the host allocates memory for the request.
#[must_use]
pub fn allocator(allocate: &str) -> Vec<u8> {
    module_with_allocator("2", "", allocate, "unreachable")
}

/// Traps when the host has read its response.
#[must_use]
pub fn trap_after_response() -> Vec<u8> {
    let fields =
        r#"(func (export "cabi_post_relayer:rest/handler@0.1.0#handle") (param i32) unreachable)"#;
    let code = "(i32.store16 (i32.const 0) (i32.const 204)) i32.const 0";
    module("2", fields, code)
}
