//! Components that consist of more than one core module, written by hand: the tool that
//! makes components from modules cannot make them.

/// The handler's types and its export, in the text format of components.
const EXPORT: &str = r#"
    (type $rq (record (field "method" string) (field "path" string)))
    (type $hv (list u8))
    (type $hd (record (field "name" string) (field "value" $hv)))
    (type $rs (record (field "status" u16) (field "headers" (list $hd)) (field "body" (list u8))))
    (type $f (func (param "request" $rq) (result $rs)))
    (alias core export $main "memory" (core memory $memory))
    (func $handle (type $f) (canon lift (core func $main "handle")
        (memory $memory) (realloc (core func $main "cabi_realloc")) string-encoding=utf8))
    (component $shim
        (type $rq0 (record (field "method" string) (field "path" string)))
        (import "t-rq" (type $rq (eq $rq0)))
        (type $hv0 (list u8))
        (import "t-hv" (type $hv (eq $hv0)))
        (type $hd0 (record (field "name" string) (field "value" $hv)))
        (import "t-hd" (type $hd (eq $hd0)))
        (type $rs0 (record (field "status" u16) (field "headers" (list $hd)) (field "body" (list u8))))
        (import "t-rs" (type $rs (eq $rs0)))
        (import "f" (func $f (param "request" $rq) (result $rs)))
        (export $erq "request" (type $rq0))
        (export $ehv "header-value" (type $hv0))
        (type $hd1 (record (field "name" string) (field "value" $ehv)))
        (export $ehd "header" (type $hd1))
        (type $rs1 (record (field "status" u16) (field "headers" (list $ehd)) (field "body" (list u8))))
        (export $ers "response" (type $rs1))
        (export "handle" (func $f) (func (param "request" $erq) (result $ers))))
    (instance $h (instantiate $shim (with "f" (func $handle)) (with "t-rq" (type $rq))
        (with "t-hv" (type $hv)) (with "t-hd" (type $hd)) (with "t-rs" (type $rs))))
    (export "relayer:rest/handler@0.1.0" (instance $h))"#;

/// Returns a component that responds with 204, with these parts before its main module.
#[must_use]
pub fn with_parts(parts: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            {parts}
            (core module $main
                (memory (export "memory") 4)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 65536)
                (func (export "handle") (param i32 i32 i32 i32) (result i32)
                    (i32.store16 (i32.const 0) (i32.const 204)) i32.const 0))
            (core instance $main (instantiate $main))
            {EXPORT})"#
    );
    wat::parse_str(text).unwrap()
}

/// Returns a component that fills a table repeatedly while it is instantiated, without a
/// function of its own that does it.
#[must_use]
pub fn that_fills_tables() -> Vec<u8> {
    let fill = format!("(elem (i32.const 0) func {})", "$f ".repeat(20_000)).repeat(4);
    let fills = r#"(core instance (instantiate $fills (with "t" (instance $t))))"#.repeat(60);
    with_parts(&format!(
        r#"(core module $t (table (export "t") 20000 funcref))
           (core instance $t (instantiate $t))
           (core module $fills
               (import "t" "t" (table 20000 funcref)) (func $f) {fill})
           {fills}"#
    ))
}
