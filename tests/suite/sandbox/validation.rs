//! Are unsuitable components rejected, with all information that authors need to correct
//! them?

use relayer_rest_host::module::{DEFAULT_MODULE, Limits, Module};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{TestServer, engine, patient};

#[track_caller]
fn refusal(bytes: &[u8]) -> String {
    let limits = Limits { concurrency: 1, ..patient() };
    Module::from_bytes(&engine(&limits), "x.wasm", bytes).unwrap_err().to_string()
}

#[test]
fn files_that_are_not_webassembly_are_rejected() {
    for bytes in [&b""[..], b"\0as", b"hello, world", b"\0asm\x01\0", b"\x7fELF\x02\x01\x01\0"] {
        assert_eq!(
            refusal(bytes),
            "module x.wasm: not WebAssembly; a component starts with the bytes 00 61 73 6d 0d 00 01 00"
        );
    }
}

#[test]
fn a_core_module_is_rejected() {
    assert_eq!(
        refusal(b"\0asm\x01\0\0\0"),
        "module x.wasm: a core module without metadata of the contract, not a component; build it with relayer-rest-sdk or wit-bindgen, or convert it with `wasm-tools component new`"
    );
}

#[test]
fn a_truncated_component_is_rejected() {
    for length in [8, 9, 100, DEFAULT_MODULE.len() / 2, DEFAULT_MODULE.len() - 1] {
        let message = refusal(&DEFAULT_MODULE[..length]);
        let expected = if length == 8 { "does not export" } else { "not a valid component" };
        assert!(message.starts_with("module x.wasm: ") && message.contains(expected), "{message}");
    }
}

#[test]
fn a_component_without_the_handler_is_rejected() {
    assert_eq!(
        refusal(&wat::parse_str("(component)").unwrap()),
        "module x.wasm: does not export relayer:rest/handler@0.1.0, which the world api-module requires, or wasi:http/incoming-handler@0.2; build it against this host's wit/, or for wasi:http 0.2"
    );
}

#[test]
fn a_handler_of_another_version_is_rejected() {
    let wit = "package relayer:rest@0.9.0;
        interface handler { handle: func(); }
        world w { export handler; }";
    let module = r#"(module (func (export "relayer:rest/handler@0.9.0#handle")))"#;
    assert_eq!(
        refusal(&component::of_world(wit, module)),
        "module x.wasm: does not export relayer:rest/handler@0.1.0, which the world api-module requires, or wasi:http/incoming-handler@0.2, but relayer:rest/handler@0.9.0; build it against this host's wit/, or for wasi:http 0.2"
    );
}

#[test]
fn a_handler_of_another_type_is_rejected() {
    let wit = "package relayer:rest@0.1.0;
        interface handler { handle: func(path: string) -> string; }
        world w { export handler; }";
    let module = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "relayer:rest/handler@0.1.0#handle") (param i32 i32) (result i32) unreachable))"#;
    let message = refusal(&component::of_world(wit, module));
    let start = "module x.wasm: does not match the contract, version 0.1.0: ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("; build it against this host's wit/"), "{message}");
}

#[test]
fn each_import_beyond_the_contract_is_named() {
    let text = r#"(component
        (import "wasi:cli/environment@0.2.6" (instance
            (export "get-arguments" (func (result (list string))))))
        (import "relayer:rest/state@0.2.0" (instance))
        (import "relayer:rest/secrets@0.1.0" (instance))
        (import "relayer:rest/chains@0.1.0" (instance
            (export "ids" (func (result (list string))))
            (export "remove" (func (param "id" string)))))
        (import "now" (func (result u64))))"#;
    let message = refusal(&wat::parse_str(text).unwrap());
    for named in [
        "wasi:cli/environment@0.2.6 (WASI)",
        "relayer:rest/state@0.2.0 (the host has version 0.1.0)",
        "relayer:rest/secrets@0.1.0 (not in the contract)",
        "relayer:rest/chains@0.1.0 function remove (not in the host's version 0.1.0)",
        "now (not in the contract)",
        "allowed are relayer:rest/types@0.1.0, relayer:rest/version@0.1.0",
    ] {
        assert!(message.contains(named), "{named} is not in: {message}");
    }
    assert!(!message.contains("function ids"), "{message}");
}

#[test]
fn an_import_of_another_type_is_rejected() {
    let text = r#"(component
        (import "relayer:rest/chains@0.1.0" (instance $chains
            (export "ids" (func (result (list u8))))))
        (core module $m (func (export "f")))
        (instance $handler)
        (export "relayer:rest/handler@0.1.0" (instance $handler)))"#;
    let message = refusal(&wat::parse_str(text).unwrap());
    let start = "module x.wasm: does not match the contract, version 0.1.0: ";
    assert!(
        message.starts_with(start) && message.contains("relayer:rest/chains@0.1.0"),
        "{message}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let limits = Limits { concurrency: 1, ..patient() };
    let missing = std::path::Path::new("/nowhere/x.wasm");
    let message = Module::from_file(&engine(&limits), missing).unwrap_err().to_string();
    assert!(message.starts_with("module /nowhere/x.wasm: cannot be read: "), "{message}");
}

#[test]
fn a_digest_is_the_sha256_of_the_component() {
    let limits = Limits { concurrency: 1, ..patient() };
    let component = component::of_handler("unreachable");
    let load = |bytes| Module::from_bytes(&engine(&limits), "x", bytes).unwrap().digest();
    let digest = load(&component);
    assert_eq!(digest, load(&component));
    assert_ne!(digest, load(DEFAULT_MODULE));
    assert_eq!(digest.to_string().len(), 64);
    assert!(digest.to_string().starts_with(&digest.short()));
}

#[tokio::test]
async fn a_third_party_module_is_served() {
    let component = component::with_response(203, "x-made-by", b"hand");
    let server = TestServer::builder().component(&component).start().await;
    let response = server.get("/anything").await;
    assert_eq!((response.status.as_u16(), response.header("x-made-by")), (203, "hand"));
    assert!(response.body.is_empty());
}

#[tokio::test]
async fn a_module_can_read_headers_by_name() {
    let component = component::that_counts();
    let server = TestServer::builder().component(&component).start().await;
    let mut client = server.connect().await;
    for (headers, status) in [
        (&[][..], 200),
        (&[("x-count", "1")], 201),
        (&[("x-count", "1"), ("X-COUNT", "2"), ("y", "3")], 202),
    ] {
        let response = client.request_with("GET", "/", headers).await;
        let vary = "x-count, accept, prefer";
        assert_eq!((response.status.as_u16(), response.header("vary")), (status, vary));
    }
}

#[tokio::test]
async fn nan_has_the_same_bits_on_every_machine() {
    // Responds with 204 if 0/0 has the bits of the canonical NaN, which is not the result
    // on every processor.
    let component = component::of_handler(
        "(local $zero f32)
         (i32.store16 (i32.const 0) (i32.add (i32.const 203)
            (i32.eq
                (i32.reinterpret_f32 (f32.div (local.get $zero) (local.get $zero)))
                (i32.const 0x7fc00000))))
         i32.const 0",
    );
    let server = TestServer::builder().component(&component).start().await;
    assert_eq!(server.get("/").await.status, 204);
}

/// The parts of a component are bounded, and the message names the limit to raise.
#[test]
fn components_with_too_many_parts_are_rejected() {
    let of_tables = |count: usize, size: u32| {
        let tables = format!("(table {size} funcref)").repeat(count);
        component::of_module(&format!(
            r#"(module {tables} (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export "relayer:rest/handler@0.1.0#handle")
                    (param i32 i32 i32 i32) (result i32) unreachable))"#
        ))
    };
    let of_memories = |pages: u32| {
        let memory = format!("(core module $m (memory {pages}))");
        let parts = memory + &"(core instance (instantiate $m))".repeat(3);
        let handler = r#"(instance $h) (export "relayer:rest/handler@0.1.0" (instance $h))"#;
        wat::parse_str(format!("(component {parts} {handler})")).unwrap()
    };
    for (component, expected) in [
        (
            of_tables(17, 1),
            "defined tables count of 17 exceeds the per-instance limit of 1; this limit is fixed",
        ),
        (
            of_tables(1, 20_001),
            "which exceeds the limit of 20000; raise limits.table in the settings",
        ),
        (
            of_memories(400),
            "needs more memory than the limit of 64.0 MiB: a new instance takes 75.0 MiB: 75.0 MiB of memories, 0 B of tables and ",
        ),
        (of_memories(300), "does not match the contract"),
    ] {
        let message = refusal(&component);
        assert!(message.contains(expected), "{message}");
    }
}
