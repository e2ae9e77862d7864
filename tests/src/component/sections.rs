//! Components with many entries in one of their sections. Each responds with 204.

use std::fmt::Write;

use super::parts::with_parts;

/// Generates a component with this number of entries of a kind.
pub type Generator = fn(usize) -> Vec<u8>;

/// Generates this number of entries of a core module, as text. `$f` is a function.
pub type Fields = fn(usize) -> String;

/// The kinds of entries of a core module.
pub const FIELDS: [(&str, Fields); 23] = [
    ("passive element segments", |n| "(elem func $f)".repeat(n)),
    ("empty passive element segments", |n| "(elem func)".repeat(n)),
    ("elements of a passive segment", |n| format!("(elem func {})", "$f ".repeat(n))),
    ("passive element expressions", |n| format!("(elem funcref {})", "(ref.func $f) ".repeat(n))),
    ("declared element segments", |n| "(elem declare func $f)".repeat(n)),
    ("active element segments", |n| {
        format!("(table 10 funcref) {}", "(elem (i32.const 0) func $f)".repeat(n))
    }),
    ("functions in a table", |n| {
        let names = numbered(n, |number| format!("$t{number}"));
        let functions = numbered(n, |number| format!("(func $t{number})"));
        format!("{functions} (table {n} funcref) (elem (i32.const 0) func {names})")
    }),
    ("passive data segments", |n| format!("(memory 1) {}", "(data \"a\")".repeat(n))),
    ("active data segments", |n| format!("(memory 1) {}", "(data (i32.const 7) \"a\")".repeat(n))),
    ("globals", |n| "(global (mut i64) i64.const 1)".repeat(n)),
    ("computed globals", |n| "(global i32 i32.const 1 i32.const 2 i32.add)".repeat(n)),
    ("globals that refer to functions", |n| {
        numbered(n, |number| format!("(func $g{number}) (global funcref ref.func $g{number})"))
    }),
    ("elements of a table", |n| format!("(table {n} funcref)")),
    ("elements of a table with a value", |n| {
        format!("(table {n} funcref (ref.func $f)) (elem declare func $f)")
    }),
    ("exported functions", |n| numbered(n, |number| format!("(func (export \"{number}\"))"))),
    ("functions", |n| "(func)".repeat(n)),
    ("exports of one function", |n| {
        numbered(n, |number| format!("(export \"{number}\" (func $f))"))
    }),
    ("types", |n| "(type (func (param i32)))".repeat(n)),
    ("tags", |n| "(tag)".repeat(n)),
    ("pages of a memory", |n| format!("(memory {n})")),
    ("steps of a start function", |n| format!("(func $start {}) (start $start)", "nop ".repeat(n))),
    ("letters of the names of functions that trap", |n| trap_below(&"n".repeat(10 * n))),
    ("instructions that trap", |n| format!("(func $trap {} unreachable)", "nop ".repeat(n))),
];

/// Generators for the parts of components other than the fields of one module.
pub const GENERATORS: [(&str, Generator); 10] = [
    ("passive element segments of many instances", |n| module(&"(elem func $f)".repeat(n), 60)),
    ("globals of many instances", |n| module(&"(global (mut i64) i64.const 1)".repeat(n), 60)),
    ("elements of ten tables", |n| module(&format!("(table {n} funcref)"), 10)),
    ("imported functions", |n| importing(n, "(func (export \"{}\"))", "(func)")),
    ("imported globals", |n| {
        importing(n, "(global (export \"{}\") i32 i32.const 1)", "(global i32)")
    }),
    ("core instances", |n| module("", n)),
    ("core instances with a memory each", |n| module("(memory 1)", n)),
    ("component instances", |n| {
        let instances = "(instance (instantiate $c))".repeat(n);
        with_parts(&format!("(component $c (core module $m)) {instances}"))
    }),
    ("resources", |n| {
        let resource = "(type (resource (rep i32)))";
        with_parts(&numbered(n, |number| {
            format!("{resource} (core func $r{number} (canon resource.new {number}))")
        }))
    }),
    ("lowered functions", |n| {
        let lowered = numbered(n, |number| {
            format!("(core func $l{number} (canon lower (func $from \"f\")))")
        });
        with_parts(&format!("{LIFTING} {lowered} {}", calling(n)))
    }),
];

/// A component whose instance exports a function.
const LIFTING: &str = r#"(component $lifting
    (core module $m (func (export "f")))
    (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))
    (export "f" (func $f)))
    (instance $from (instantiate $lifting))"#;

/// Returns a module that imports this number of lowered functions, and its instance.
fn calling(count: usize) -> String {
    let imports = numbered(count, |number| format!("(import \"l\" \"{number}\" (func))"));
    let given = numbered(count, |number| format!("(export \"{number}\" (func $l{number}))"));
    format!(
        "(core module $calling {imports})
         (core instance $given {given})
         (core instance (instantiate $calling (with \"l\" (instance $given))))"
    )
}

/// Returns a component with this number of instances of a module with these fields.
#[must_use]
pub fn module(fields: &str, instances: usize) -> Vec<u8> {
    let instances = "(core instance (instantiate $m))".repeat(instances);
    with_parts(&format!("(core module $m (func $f) {fields}) {instances}"))
}

/// Returns functions whose names begin with `name`, which call each other in the start
/// function. The last one traps.
#[must_use]
pub fn trap_below(name: &str) -> String {
    let called = |function, callee| format!("(func ${name}{function} (call ${name}{callee}))");
    let callers =
        [("a", "b"), ("b", "c"), ("c", "d")].map(|(caller, callee)| called(caller, callee));
    format!("{} (func ${name}d unreachable) (start ${name}a)", callers.concat())
}

/// Returns a component in which a module imports this number of items from another one.
/// `{}` in `export` stands for their names.
fn importing(count: usize, export: &str, import: &str) -> Vec<u8> {
    let exports = numbered(count, |number| export.replace("{}", &number.to_string()));
    let imports = numbered(count, |number| format!("(import \"e\" \"{number}\" {import})"));
    with_parts(&format!(
        "(core module $e {exports}) (core instance $e (instantiate $e))
         (core module $i {imports}) (core instance (instantiate $i (with \"e\" (instance $e))))"
    ))
}

fn numbered(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut all, number| {
        write!(all, "{} ", text(number)).expect("a string takes what is written");
        all
    })
}
