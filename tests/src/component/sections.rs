//! Components with many entries in one of their sections. Each answers 204.

use std::fmt::Write;

use super::parts::with_parts;

/// Makes a component with so many entries of a kind.
pub type Generator = fn(usize) -> Vec<u8>;

/// Generators for every kind of section that an instance may have to pay for.
pub const GENERATORS: [(&str, Generator); 30] = [
    ("passive element segments", |n| module(&"(elem func $f)".repeat(n), 1)),
    ("empty passive element segments", |n| module(&"(elem func)".repeat(n), 1)),
    ("passive element segments of many instances", |n| module(&"(elem func $f)".repeat(n), 60)),
    ("elements of a passive segment", |n| module(&format!("(elem func {})", "$f ".repeat(n)), 1)),
    ("passive element expressions", |n| {
        module(&format!("(elem funcref {})", "(ref.func $f) ".repeat(n)), 1)
    }),
    ("declared element segments", |n| module(&"(elem declare func $f)".repeat(n), 1)),
    ("active element segments", |n| {
        module(&format!("(table 10 funcref) {}", "(elem (i32.const 0) func $f)".repeat(n)), 1)
    }),
    ("functions in a table", |n| {
        let names = (0..n).fold(String::new(), |names, number| names + &format!("$f{number} "));
        let functions = numbered(n, |number| format!("(func $f{number})"));
        module(&format!("{functions} (table {n} funcref) (elem (i32.const 0) func {names})"), 1)
    }),
    ("passive data segments", |n| module(&format!("(memory 1) {}", "(data \"a\")".repeat(n)), 1)),
    ("active data segments", |n| {
        module(&format!("(memory 1) {}", "(data (i32.const 7) \"a\")".repeat(n)), 1)
    }),
    ("globals", |n| module(&"(global (mut i64) i64.const 1)".repeat(n), 1)),
    ("globals of many instances", |n| module(&"(global (mut i64) i64.const 1)".repeat(n), 60)),
    ("computed globals", |n| module(&"(global i32 i32.const 1 i32.const 2 i32.add)".repeat(n), 1)),
    ("globals that refer to functions", |n| {
        module(&numbered(n, |at| format!("(func $g{at}) (global funcref ref.func $g{at})")), 1)
    }),
    ("elements of a table", |n| module(&format!("(table {n} funcref)"), 10)),
    ("elements of a table with a value", |n| {
        module(&format!("(table {n} funcref (ref.func $f)) (elem declare func $f)"), 10)
    }),
    ("exported functions", |n| {
        module(&numbered(n, |number| format!("(func (export \"{number}\"))")), 1)
    }),
    ("functions", |n| module(&"(func)".repeat(n), 1)),
    ("exports of one function", |n| {
        module(&numbered(n, |number| format!("(export \"{number}\" (func $f))")), 1)
    }),
    ("types", |n| module(&"(type (func (param i32)))".repeat(n), 1)),
    ("imported functions", |n| importing(n, "(func (export \"{}\"))", "(func)")),
    ("imported globals", |n| {
        importing(n, "(global (export \"{}\") i32 i32.const 1)", "(global i32)")
    }),
    ("tags", |n| module(&"(tag)".repeat(n), 1)),
    ("pages of memories", |n| module(&format!("(memory {n})"), 2)),
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
    ("start functions", |n| module("(start $f)", n)),
];

/// A component whose instance exports a function.
const LIFTING: &str = r#"(component $lifting
    (core module $m (func (export "f")))
    (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))
    (export "f" (func $f)))
    (instance $from (instantiate $lifting))"#;

/// A module that imports so many lowered functions, and its instance.
fn calling(count: usize) -> String {
    let imports = numbered(count, |number| format!("(import \"l\" \"{number}\" (func))"));
    let given = numbered(count, |number| format!("(export \"{number}\" (func $l{number}))"));
    format!(
        "(core module $calling {imports})
         (core instance $given {given})
         (core instance (instantiate $calling (with \"l\" (instance $given))))"
    )
}

/// So many instances of a module with these fields.
fn module(fields: &str, instances: usize) -> Vec<u8> {
    let instances = "(core instance (instantiate $m))".repeat(instances);
    with_parts(&format!("(core module $m (func $f) {fields}) {instances}"))
}

/// A module that imports so many things, which another one exports. `{}` is for
/// their names.
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
