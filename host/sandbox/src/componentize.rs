//! Encodes core modules as components: `cargo build` makes a core module, in which a
//! crate that was generated from the contract declares its world.

use std::borrow::Cow;
use std::panic::catch_unwind;

use relayer_rest_common::text::{escape_control, truncate};
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use super::load_error::LoadError;

/// The maximum size of a component, in bytes.
pub const MAX_COMPONENT_SIZE: u64 = 1 << 30;

/// The prefix of the names of sections with that declaration.
const NOTE: &str = "component-type";

/// The handler of `wasi:http` 0.3, without its minor version.
const ASYNC_HANDLER: &str = "wasi:http/handler@0.3.";

/// Returns the component in these bytes, or the one encoded from them.
pub(super) fn component<'a>(name: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, LoadError> {
    if check(name, bytes)? {
        return Ok(bytes.into());
    }
    let encoded = encode(bytes).map(Cow::Owned);
    encoded.map_err(|reason| LoadError::Encode { name: name.to_owned(), reason })
}

/// Returns whether the bytes are a component. If not, they are a core module that
/// declares its world.
pub(super) fn check(name: &str, bytes: &[u8]) -> Result<bool, LoadError> {
    let name = || name.to_owned();
    match bytes.strip_prefix(b"\0asm") {
        Some([_, _, 1, 0, ..]) => match async_handler(bytes) {
            Some(export) => Err(LoadError::AsyncHandler { name: name(), export }),
            None => Ok(true),
        },
        Some([1, 0, 0, 0, ..]) if has_note(bytes) => Ok(false),
        Some([1, 0, 0, 0, ..]) => Err(LoadError::CoreModule { name: name() }),
        _ => Err(LoadError::NotWasm { name: name() }),
    }
}

/// Returns the name of the handler of `wasi:http` 0.3 that a component exports. The engine
/// does not compile such a component, so this is found before.
fn async_handler(component: &[u8]) -> Option<String> {
    let mut depth = 0_u32;
    for part in Parser::new(0).parse_all(component).map_while(Result::ok) {
        match part {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(exports) if depth == 1 => {
                let names =
                    exports.into_iter().map_while(Result::ok).map(|export| export.name.name);
                let mut names = names.filter(|name| name.starts_with(ASYNC_HANDLER));
                if let Some(name) = names.next() {
                    return Some(escape_control(&truncate(name)));
                }
            }
            _ => {}
        }
    }
    None
}

fn has_note(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).map_while(Result::ok).any(
        |part| matches!(part, Payload::CustomSection(section) if section.name().starts_with(NOTE)),
    )
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    // The input is untrusted, and the encoder may panic.
    let encoded = catch_unwind(|| {
        ComponentEncoder::default().module(module).and_then(ComponentEncoder::encode)
    });
    match encoded {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("its metadata makes the encoder fail".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadError, component};

    #[test]
    fn invalid_metadata_is_rejected() {
        // A core module with an empty section of that name.
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        assert!(matches!(component("a", &module), Err(LoadError::CoreModule { .. })));
        module.extend([0, 15, 14]);
        module.extend(b"component-type");
        let error = component("a", &module).unwrap_err();
        assert!(matches!(error, LoadError::Encode { .. }), "{error}");
        assert!(matches!(component("a", b"\0asn"), Err(LoadError::NotWasm { .. })));
    }
}
