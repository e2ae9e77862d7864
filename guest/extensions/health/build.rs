//! Gives the module a small shadow stack when it is built for wasm.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        // The default is 1 MiB, of which an instance would touch the far end.
        println!("cargo:rustc-link-arg-cdylib=-zstack-size=65536");
    }
}
