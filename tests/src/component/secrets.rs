//! Components that leave data behind in all possible places, and that look for it.

use super::of_module;

/// A path of [`keeper`], which distinguishes paths by their lengths: only looks for a
/// secret.
pub const READ: &str = "/read";
/// Leaves a secret.
pub const WRITE: &str = "/write";
/// Leaves a secret, and looks for it.
pub const WRITE_AND_READ: &str = "/write-read";
/// Leaves a secret, and traps.
pub const WRITE_AND_TRAP: &str = "/write-trap-";

/// Returns a component that writes to its initial memory, its grown memory, a global and
/// a table. The status is 200 plus one bit for each of these, in this order, in which it
/// found something.
#[must_use]
pub fn keeper() -> Vec<u8> {
    of_module(
        r#"(module
            (memory (export "memory") 4 32)
            (global $global (mut i32) (i32.const 0))
            (table $table 8 funcref)
            (elem declare func $f)
            (func $f)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func $read (result i32)
                (i32.or
                    (i32.or
                        (i32.ne (i32.load (i32.const 8192)) (i32.const 0))
                        (i32.shl
                            (i32.ne (i32.load (i32.const 1572864)) (i32.const 0))
                            (i32.const 1)))
                    (i32.or
                        (i32.shl (i32.ne (global.get $global) (i32.const 0)) (i32.const 2))
                        (i32.shl
                            (i32.eqz (ref.is_null (table.get $table (i32.const 5))))
                            (i32.const 3)))))
            (func $write
                (memory.fill (i32.const 8192) (i32.const 255) (i32.const 32768))
                (memory.fill (i32.const 1572864) (i32.const 255) (i32.const 32768))
                (global.set $global (i32.const 7))
                (table.set $table (i32.const 5) (ref.func $f)))
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (local $length i32) (local $found i32)
                (local.set $length (local.get 3))
                (drop (memory.grow (i32.const 28)))
                (local.set $found (call $read))
                (if (i32.gt_u (local.get $length) (i32.const 5)) (then (call $write)))
                (if (i32.eq (local.get $length) (i32.const 11))
                    (then (local.set $found (call $read))))
                (if (i32.eq (local.get $length) (i32.const 12)) (then unreachable))
                (i32.store16 (i32.const 0) (i32.add (i32.const 200) (local.get $found)))
                i32.const 0))"#,
    )
}

/// Returns a component that checks all of its memory, its table and its global. The
/// status is 201 if any of them is not empty, and 200 otherwise.
#[must_use]
pub fn looker() -> Vec<u8> {
    of_module(
        r#"(module
            (memory (export "memory") 4 32)
            (global $global (mut i32) (i32.const 0))
            (table $table 8 funcref)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 0)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (local $at i32) (local $found i32)
                (drop (memory.grow (i32.const 28)))
                (local.set $found (global.get $global))
                (local.set $at (i32.const 8))
                (loop $more
                    (if (i32.eqz (ref.is_null (table.get $table
                            (local.tee $at (i32.sub (local.get $at) (i32.const 1))))))
                        (then (local.set $found (i32.const 1))))
                    (br_if $more (local.get $at)))
                ;; What it is given itself lies at the start.
                (local.set $at (i32.const 1024))
                (loop $more
                    (if (i32.load (local.get $at)) (then (local.set $found (i32.const 1))))
                    (local.set $at (i32.add (local.get $at) (i32.const 4)))
                    (br_if $more (i32.lt_u (local.get $at) (i32.const 2097152))))
                (i32.store16 (i32.const 512)
                    (i32.add (i32.const 200) (i32.ne (local.get $found) (i32.const 0))))
                i32.const 512))"#,
    )
}
