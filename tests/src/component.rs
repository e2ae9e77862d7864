//! Components that do what no good module does, made from the text format.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve};

/// The contract.
#[must_use]
pub fn contract() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let (package, _) = resolve.push_dir(wit).unwrap();
    (resolve, package)
}

/// A component of the contract's world from a core module in text.
#[must_use]
pub fn of_module(text: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap();
    let (resolve, package) = contract();
    let world = resolve.select_world(&[package], Some("api-module")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    of_binary(&module)
}

/// A component of another world than the contract's, from that world in WIT
/// and a core module in text.
#[must_use]
pub fn of_world(wit: &str, text: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    of_binary(&module)
}

/// A component from a core module that says itself which world it is of, as
/// `wasm-tools component new` makes it.
#[must_use]
pub fn of_binary(module: &[u8]) -> Vec<u8> {
    ComponentEncoder::default().module(module).unwrap().validate(true).encode().unwrap()
}

/// A component whose handler is this code, which has the locals of
/// `handler.handle` and leaves the address of a `response`. Strings it is
/// given lie from 64 KiB on, one over the other.
#[must_use]
pub fn of_handler(code: &str) -> Vec<u8> {
    of_handler_with("", code)
}

/// The same, with a text at 64 and the function `$log` of the contract's log,
/// which takes a level, an address and a length.
#[must_use]
pub fn of_handler_that_logs(text: &str, code: &str) -> Vec<u8> {
    let fields = format!(
        r#"(import "relayer:rest/log@0.1.0" "log" (func $log (param i32 i32 i32)))
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
                (param i32 i32 i32 i32 i32 i32 i32) (result i32)
                {code}))"#
    ))
}

/// A component that answers a status with one header and no body.
#[must_use]
pub fn of_answer(status: u16, header: &str, value: &[u8]) -> Vec<u8> {
    let value_length = value.len();
    let value = value.iter().fold(String::new(), |text, byte| format!("{text}\\{byte:02x}"));
    let header_length = header.len();
    // A response: its status at 0, its headers at 4, its body at 12. One
    // header at 32: its name, its value.
    of_module(&format!(
        r#"(module
            (memory (export "memory") 4)
            (data (i32.const 64) "{header}")
            (data (i32.const 512) "{value}")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                i32.const 65536)
            (func (export "relayer:rest/handler@0.1.0#handle")
                (param i32 i32 i32 i32 i32 i32 i32) (result i32)
                (i32.store16 (i32.const 0) (i32.const {status}))
                (i32.store (i32.const 4) (i32.const 32))
                (i32.store (i32.const 8) (i32.const 1))
                (i32.store (i32.const 12) (i32.const 0))
                (i32.store (i32.const 16) (i32.const 0))
                (i32.store (i32.const 32) (i32.const 64))
                (i32.store (i32.const 36) (i32.const {header_length}))
                (i32.store (i32.const 40) (i32.const 512))
                (i32.store (i32.const 44) (i32.const {value_length}))
                i32.const 0))"#
    ))
}
