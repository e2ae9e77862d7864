//! Components with unusual behaviour, made from the text format.

pub mod hostile;
pub mod parts;
pub mod secrets;
pub mod sections;

use std::fmt::Write;
use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, PackageId, Resolve};

use crate::cargo::LIVE_GUEST;

/// Parses the contract from `wit/`.
#[must_use]
pub fn contract() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let (package, _) = resolve.push_dir(wit).unwrap();
    (resolve, package)
}

/// Returns a core module that imports everything that the contract offers.
#[must_use]
pub fn imports() -> Vec<u8> {
    let (resolve, package) = contract();
    let world = resolve.select_world(&[package], Some("api-module")).unwrap();
    dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync))
}

/// Returns a component of the contract's world from a core module in the text format.
#[must_use]
pub fn of_module(text: &str) -> Vec<u8> {
    of_core(&wat::parse_str(text).unwrap())
}

/// Returns a component of the contract's world from a core module.
#[must_use]
pub fn of_core(module: &[u8]) -> Vec<u8> {
    let mut module = module.to_vec();
    let (resolve, package) = contract();
    let world = resolve.select_world(&[package], Some("api-module")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    of_binary(&module)
}

/// Adds an OpenAPI document to a component.
///
/// # Panics
/// Panics if the document has 4 GiB or more.
#[must_use]
pub fn with_document(mut component: Vec<u8>, document: &[u8]) -> Vec<u8> {
    let section = [b"\x07openapi", document].concat();
    let size = u32::try_from(section.len()).unwrap();
    component.push(0);
    // Five bytes of LEB128.
    component.extend([0, 7, 14, 21].map(|shift| (size >> shift).to_le_bytes()[0] | 0x80));
    component.push((size >> 28).to_le_bytes()[0]);
    component.extend(section);
    component
}

/// Returns a component of another world, from that world in WIT and a core module in the
/// text format.
#[must_use]
pub fn of_world(wit: &str, text: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    of_binary(&module)
}

/// Returns a component from a core module that names its world itself, as `wasm-tools
/// component new` does.
#[must_use]
pub fn of_binary(module: &[u8]) -> Vec<u8> {
    ComponentEncoder::default().module(module).unwrap().validate(true).encode().unwrap()
}

/// Returns the module in `tests/guests/live` of a kind, under one of several digests with the same
/// responses.
#[must_use]
pub fn live(kind: [u8; 6], variant: u32) -> Vec<u8> {
    let mut module = LIVE_GUEST.to_vec();
    let steady = b"live-kind:steady";
    let places = module.windows(steady.len()).enumerate();
    let places: Vec<_> = places.filter(|(_, bytes)| bytes == steady).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 1);
    module[places[0]..][steady.len() - kind.len()..steady.len()].copy_from_slice(&kind);
    noted(&module, &variant.to_string())
}

/// Returns the component under another digest, with an unused custom section.
#[must_use]
pub fn noted(component: &[u8], note: &str) -> Vec<u8> {
    let note = note.as_bytes();
    let length = u8::try_from(note.len()).expect("a note is short");
    let mut noted = component.to_vec();
    // A custom section: its id 0, its length, and its name with its length.
    noted.extend([0, length + 1, length]);
    noted.extend(note);
    noted
}

/// Returns a component whose handler is this code, which has the locals of
/// `handler.handle` and leaves the address of a `response`. All strings passed to the
/// module are written at 64 KiB, over each other.
#[must_use]
pub fn of_handler(code: &str) -> Vec<u8> {
    of_handler_with("", code)
}

/// Returns the component of [`of_handler`], with a text at address 64 and the function
/// `$log` of the contract, which takes a level, an address and a length.
#[must_use]
pub fn of_handler_that_logs(text: &str, code: &str) -> Vec<u8> {
    let fields = format!(
        r#"(import "relayer:rest/log@0.1.0" "log" (func $log (param i32 i32 i32)))
           (data (i32.const 64) "{text}")"#
    );
    of_handler_with(&fields, code)
}

/// Returns a component whose handler reports parts of `text` as causes of a failure: `$report`
/// takes an address and a length, and the text is at the address 64.
#[must_use]
pub fn of_handler_that_reports(text: &str, code: &str) -> Vec<u8> {
    let fields = format!(
        r#"(import "relayer:rest/failure@0.1.0" "report" (func $report (param i32 i32)))
           (data (i32.const 64) "{text}")"#
    );
    of_handler_with(&fields, code)
}

fn of_handler_with(fields: &str, code: &str) -> Vec<u8> {
    of_module(&format!(
        r#"(module
            {fields}
            (memory (export "memory") 4)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                {code}))"#
    ))
}

/// Returns a component that responds with a status, one header and no body.
#[must_use]
pub fn with_response(status: u16, header: &str, value: &[u8]) -> Vec<u8> {
    of_response(status, &[(header, value)], b"")
}

/// Returns a component with a constant response.
#[must_use]
pub fn of_response(status: u16, headers: &[(&str, &[u8])], body: &[u8]) -> Vec<u8> {
    // The response starts at 0: the status, the headers at 4, the body at 12. The names
    // and values of the headers start at 32. The texts follow.
    let mut texts = Vec::new();
    let mut next = 32 + 16 * headers.len();
    let mut place = |text: &[u8]| {
        let start = next;
        let length = text.len();
        let mut bytes = String::with_capacity(3 * length);
        for byte in text {
            write!(bytes, "\\{byte:02x}").unwrap();
        }
        texts.push(format!(r#"(data (i32.const {start}) "{bytes}")"#));
        next += length;
        (start, length)
    };
    let mut stores = Vec::new();
    let mut store = |at: usize, (start, length): (usize, usize)| {
        let more = at + 4;
        stores.push(format!("(i32.store (i32.const {at}) (i32.const {start}))"));
        stores.push(format!("(i32.store (i32.const {more}) (i32.const {length}))"));
    };
    store(4, (32, headers.len()));
    store(12, place(body));
    for (number, (name, value)) in headers.iter().enumerate() {
        store(32 + 16 * number, place(name.as_bytes()));
        store(40 + 16 * number, place(value));
    }
    let texts = texts.join("\n");
    let stores = stores.join("\n");
    // Strings passed to the module are written after all texts.
    let free = next.next_multiple_of(1 << 16);
    let pages = free / (1 << 16) + 2;
    of_module(&format!(
        r#"(module
            (memory (export "memory") {pages})
            {texts}
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const {free})
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (i32.store16 (i32.const 0) (i32.const {status}))
                {stores}
                i32.const 0))"#
    ))
}

/// Returns a component of some hundred kilobytes that takes gigabytes and many seconds to
/// compile: it has this number of nested blocks with an exit each, and a variable that
/// changes after each.
#[must_use]
pub fn hard_to_compile(blocks: usize) -> Vec<u8> {
    let start = "(block (br_if 0 (local.get 0)) ".repeat(blocks);
    let end = "(local.set 1 (i32.add (local.get 1) (local.get 2))))".repeat(blocks);
    of_handler(&format!("{start} {end} i32.const 0"))
}

/// A bump allocator that starts at 64 KiB.
const BUMP: &str = r#"(global $free (mut i32) (i32.const 65536))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $start i32)
        (local.set $start (global.get $free))
        (global.set $free
            (i32.and (i32.add (i32.add (local.get $start) (local.get 3)) (i32.const 7)) (i32.const -8)))
        (local.get $start))"#;

/// Returns a component with these fields, imports first, and this code as its handler.
fn calling(fields: &str, code: &str) -> Vec<u8> {
    of_module(&format!(
        r#"(module
            {fields}
            (memory (export "memory") 4)
            {BUMP}
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                {code}))"#
    ))
}

/// Returns a component that responds with status 200 plus the number of values of the
/// header `X-Count`.
#[must_use]
pub fn that_counts() -> Vec<u8> {
    calling(
        r#"(import "relayer:rest/request@0.1.0" "header" (func $header (param i32 i32 i32)))
           (data (i32.const 64) "X-Count")"#,
        "(call $header (i32.const 64) (i32.const 7) (i32.const 128))
           (i32.store16 (i32.const 0) (i32.add (i32.const 200) (i32.load (i32.const 132))))
           i32.const 0",
    )
}

/// Returns a component that responds with 200 and the query as text, and traps if the query is
/// `trap`. For paths of six bytes such as `/spare` it responds with 204 and does not read
/// the query.
#[must_use]
pub fn that_returns_its_query() -> Vec<u8> {
    that_returns_its_query_after(1)
}

/// Returns the component of [`that_returns_its_query`], which first counts to a number.
#[must_use]
pub fn that_returns_its_query_after(count: u32) -> Vec<u8> {
    calling(
        r#"(import "relayer:rest/query@0.1.0" "get" (func $query (param i32)))
           (data (i32.const 64) "trap")
           (data (i32.const 304) "content-typetext/plain")"#,
        &format!(
            "(local $left i32)
             (local.set $left (i32.const {count}))
             (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
             (i32.store16 (i32.const 0) (i32.const 204))
             (if (i32.eq (local.get 3) (i32.const 6)) (then (return (i32.const 0))))
             (call $query (i32.const 128))
             (i32.store16 (i32.const 0) (i32.const 200))
             (i32.store (i32.const 4) (i32.const 32))
             (i32.store (i32.const 8) (i32.const 1))
             (i32.store (i32.const 32) (i32.const 304))
             (i32.store (i32.const 36) (i32.const 12))
             (i32.store (i32.const 40) (i32.const 316))
             (i32.store (i32.const 44) (i32.const 10))
             (if (i32.load8_u (i32.const 128)) (then
                 (i32.store (i32.const 12) (i32.load (i32.const 132)))
                 (i32.store (i32.const 16) (i32.load (i32.const 136)))
                 (if (i32.eq (i32.load (i32.const 136)) (i32.const 4)) (then
                     (if (i32.eq (i32.load (i32.load (i32.const 132))) (i32.load (i32.const 64)))
                         (then unreachable))))))
             i32.const 0"
        ),
    )
}

/// Returns a component that counts to a number, and then responds with this status plus
/// the number of chains.
#[must_use]
pub fn that_counts_chains(count: u32, status: u16) -> Vec<u8> {
    of_module(&format!(
        r#"(module
            (import "relayer:rest/chains@0.1.0" "ids" (func $ids (param i32)))
            (memory (export "memory") 4)
            {BUMP}
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (local $left i32)
                (local.set $left (i32.const {count}))
                (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
                (call $ids (i32.const 128))
                (i32.store16 (i32.const 0) (i32.add (i32.const {status}) (i32.load (i32.const 140))))
                i32.const 0))"#
    ))
}

/// Returns a component that counts to a number and traps if the request has the header
/// `X-Mode`, and responds with 204 otherwise.
#[must_use]
pub fn that_traps_at_a_header(count: u32) -> Vec<u8> {
    that_traps_at("X-Mode", count)
}

/// Returns a component that counts to a number and traps if the request has this header, and
/// responds with 204 otherwise.
#[must_use]
pub fn that_traps_at(header: &str, count: u32) -> Vec<u8> {
    let length = header.len();
    calling(
        &format!(
            r#"(import "relayer:rest/request@0.1.0" "header" (func $header (param i32 i32 i32)))
               (data (i32.const 64) "{header}")"#
        ),
        &format!(
            "(local $left i32)
             (local.set $left (i32.const {count}))
             (call $header (i32.const 64) (i32.const {length}) (i32.const 128))
             (if (i32.load (i32.const 132)) (then
                 (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
                 unreachable))
             (i32.store16 (i32.const 0) (i32.const 204))
             i32.const 0"
        ),
    )
}

/// Returns a component that reads `count` headers, at most 90, down to `x-10`. It never
/// ends if the request has `x-10`, and responds with 204 otherwise.
#[must_use]
pub fn that_reads_headers(count: u32) -> Vec<u8> {
    assert!(count <= 90);
    let names = (10..10 + count).map(|number| format!("x-{number}")).collect::<Vec<_>>().concat();
    calling(
        &format!(
            r#"(import "relayer:rest/request@0.1.0" "header" (func $header (param i32 i32 i32)))
               (data (i32.const 1024) "{names}")"#
        ),
        &format!(
            "(local $name i32)
             (local.set $name (i32.const {last}))
             (loop $on
                 (call $header (local.get $name) (i32.const 4) (i32.const 128))
                 (local.set $name (i32.sub (local.get $name) (i32.const 4)))
                 (br_if $on (i32.ge_u (local.get $name) (i32.const 1024))))
             (if (i32.load (i32.const 132)) (then (loop br 0)))
             (i32.store16 (i32.const 0) (i32.const 204))
             i32.const 0",
            last = 1024 + 4 * (count - 1)
        ),
    )
}

/// Returns a component that imports a function of the contract with this number of `i32`
/// parameters, and responds with 204 without calling it.
#[must_use]
pub fn that_imports(interface: &str, function: &str, numbers: usize) -> Vec<u8> {
    let parameters = "i32 ".repeat(numbers);
    let import = format!(
        r#"(import "relayer:rest/{interface}@0.1.0" "{function}" (func (param {parameters})))"#
    );
    of_handler_with(&import, "(i32.store16 (i32.const 0) (i32.const 204)) i32.const 0")
}

/// Returns a component that records this number of commands to clear the packets of all
/// chains, and responds with 204.
#[must_use]
pub fn that_clears_packets(count: u32) -> Vec<u8> {
    calling(
        r#"(import "relayer:rest/commands@0.1.0" "clear-packets" (func $clear (param i32 i32 i32)))"#,
        &format!(
            "(local $left i32)
             (local.set $left (i32.const {count}))
             (loop $on
                 (call $clear (i32.const 0) (i32.const 0) (i32.const 0))
                 (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
             (i32.store16 (i32.const 0) (i32.const 204))
             i32.const 0"
        ),
    )
}

/// Returns a component that responds with 204, and records a command for the query `2`.
#[must_use]
pub fn that_clears_packets_for_a_query() -> Vec<u8> {
    calling(
        r#"(import "relayer:rest/commands@0.1.0" "clear-packets" (func $clear (param i32 i32 i32)))
           (import "relayer:rest/query@0.1.0" "get" (func $query (param i32)))"#,
        "(call $query (i32.const 128))
         (if (i32.load8_u (i32.const 128)) (then
             (if (i32.eq (i32.load8_u (i32.load (i32.const 132))) (i32.const 50))
                 (then (call $clear (i32.const 0) (i32.const 0) (i32.const 0))))))
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0",
    )
}

/// Returns a component that traps if the list of chains is empty, and responds with 204
/// otherwise, or if the path has six bytes, such as `/spare`.
#[must_use]
pub fn that_needs_a_chain() -> Vec<u8> {
    calling(
        r#"(import "relayer:rest/chains@0.1.0" "ids" (func $ids (param i32)))"#,
        "(call $ids (i32.const 128))
           (if (i32.ne (local.get 3) (i32.const 6))
               (then (if (i32.eqz (i32.load (i32.const 140))) (then unreachable))))
           (i32.store16 (i32.const 0) (i32.const 204))
           i32.const 0",
    )
}

/// Returns a component that responds with 200 and the first value of this header as text, if any.
#[must_use]
pub fn that_returns(header: &str) -> Vec<u8> {
    let length = header.len();
    calling(
        &format!(
            r#"(import "relayer:rest/request@0.1.0" "header" (func $header (param i32 i32 i32)))
               (data (i32.const 64) "{header}")
               (data (i32.const 304) "content-typetext/plain")"#
        ),
        &format!(
            "(i32.store (i32.const 4) (i32.const 32))
             (i32.store (i32.const 8) (i32.const 1))
             (i32.store (i32.const 32) (i32.const 304))
             (i32.store (i32.const 36) (i32.const 12))
             (i32.store (i32.const 40) (i32.const 316))
             (i32.store (i32.const 44) (i32.const 10))
             (call $header (i32.const 64) (i32.const {length}) (i32.const 1024))
             (if (i32.load (i32.const 1028)) (then
                 (i64.store (i32.const 12) (i64.load (i32.load (i32.const 1024))))))
             (i32.store16 (i32.const 0) (i32.const 200))
             i32.const 0"
        ),
    )
}

/// Returns a component that responds with 200 and its mount path.
#[must_use]
pub fn that_returns_its_mount() -> Vec<u8> {
    calling(
        r#"(import "relayer:rest/mount@0.1.0" "path" (func $mount (param i32)))"#,
        "(call $mount (i32.const 12))
           (i32.store16 (i32.const 0) (i32.const 200))
           i32.const 0",
    )
}

/// Returns a component that counts to a number and responds with 204: 100 million take
/// some 50 ms.
#[must_use]
pub fn that_takes(count: u32) -> Vec<u8> {
    of_handler(&format!(
        "(local $left i32)
         (local.set $left (i32.const {count}))
         (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0"
    ))
}

/// Returns a component that responds with 204, for paths that begin with `/slow` only
/// after counting to a number.
#[must_use]
pub fn that_takes_on_slow(count: u32) -> Vec<u8> {
    of_handler(&format!(
        "(local $left i32)
         (local.set $left (select
             (i32.const {count}) (i32.const 1)
             (i32.eq (i32.load offset=1 align=1 (local.get 2)) (i32.const 0x776f6c73))))
         (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0"
    ))
}

/// Returns a component that responds with 204, after filling 62 MiB of memory 32 times if
/// its path begins with `/slow`. No tick interrupts that.
#[must_use]
pub fn that_fills_memory_on_slow() -> Vec<u8> {
    let fill = "(memory.fill (i32.const 262144) (i32.const 78) (i32.const 64880640))";
    of_handler(&format!(
        "(if (i32.eq (i32.load offset=1 align=1 (local.get 2)) (i32.const 0x776f6c73)) (then
             (drop (memory.grow (i32.const 990)))
             {}))
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0",
        fill.repeat(32)
    ))
}

/// Returns a component that responds with 204: at once for a path of six bytes such as
/// `/livez`, and for others after counting to a number.
#[must_use]
pub fn that_takes_but_at_livez(count: u32) -> Vec<u8> {
    of_handler(&format!(
        "(local $left i32)
         (local.set $left (i32.const {count}))
         (if (i32.ne (local.get 3) (i32.const 6)) (then
             (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0"
    ))
}

/// Returns a component that never ends for a path of five bytes such as `/spin`, and
/// responds with 204 for others.
#[must_use]
pub fn that_spins_on_spin() -> Vec<u8> {
    of_handler(
        "(i32.eq (local.get 3) (i32.const 5))
         if (loop br 0) end
         (i32.store16 (i32.const 0) (i32.const 204))
         i32.const 0",
    )
}

/// Returns a component that grows its memory to 128 MiB in a nested call, and traps if
/// that fails.
#[must_use]
pub fn that_wants_too_much() -> Vec<u8> {
    of_module(
        r#"(module
            (memory (export "memory") 4)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func $reserve (param i32)
                (if (i32.eq (memory.grow (local.get 0)) (i32.const -1)) (then unreachable)))
            (func $render (call $reserve (i32.const 2044)))
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (call $render)
                (i32.store16 (i32.const 0) (i32.const 204))
                i32.const 0))"#,
    )
}

/// Returns a component that responds with 200 and this JSON body, but traps for a path of
/// 31 bytes.
#[must_use]
pub fn that_traps_later(body: &str) -> Vec<u8> {
    let length = body.len();
    let body = body.replace('"', "\\22");
    of_module(&format!(
        r#"(module
            (memory (export "memory") 4)
            (data (i32.const 64) "{body}")
            (data (i32.const 16384) "content-typeapplication/json")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32) (result i32)
                (i32.eq (local.get 3) (i32.const 31))
                if unreachable end
                (i32.store16 (i32.const 0) (i32.const 200))
                (i32.store (i32.const 4) (i32.const 32))
                (i32.store (i32.const 8) (i32.const 1))
                (i32.store (i32.const 32) (i32.const 16384))
                (i32.store (i32.const 36) (i32.const 12))
                (i32.store (i32.const 40) (i32.const 16396))
                (i32.store (i32.const 44) (i32.const 16))
                (i32.store (i32.const 12) (i32.const 64))
                (i32.store (i32.const 16) (i32.const {length}))
                i32.const 0))"#
    ))
}

/// Returns the beginning of a handler's code, after its locals: it responds with 204 unless the
/// path is as long as this one. A module that fails for all others does not pass a preflight.
#[must_use]
pub fn only_for(path: &str) -> String {
    let length = path.len();
    format!(
        "(i32.ne (local.get 3) (i32.const {length}))
         if (i32.store16 (i32.const 0) (i32.const 204)) (return (i32.const 0)) end\n"
    )
}

/// A path for which [`that_traps_later`] traps.
pub const TRAP: &str = "/a/path/that/is/31/bytes/long/x";
