//! From what a compiler leaves to a component: `cargo build` makes a core module,
//! in which a crate that was generated from the contract notes what it is to be.

use std::borrow::Cow;
use std::panic::catch_unwind;

use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

use super::load_error::LoadError;

/// What the sections begin with in which that is noted.
const NOTE: &str = "component-type";

/// The component that these bytes are, or that is made of them.
pub(super) fn component<'a>(name: &str, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, LoadError> {
    if check(name, bytes)? {
        return Ok(bytes.into());
    }
    let encoded = encode(bytes).map(Cow::Owned);
    encoded.map_err(|reason| LoadError::Encode { name: name.to_owned(), reason })
}

/// Whether it is a component; where not, one may be made of it.
pub(super) fn check(name: &str, bytes: &[u8]) -> Result<bool, LoadError> {
    let name = || name.to_owned();
    match bytes.strip_prefix(b"\0asm") {
        Some([_, _, 1, 0, ..]) => Ok(true),
        Some([1, 0, 0, 0, ..]) if has_note(bytes) => Ok(false),
        Some([1, 0, 0, 0, ..]) => Err(LoadError::CoreModule { name: name() }),
        _ => Err(LoadError::NotWasm { name: name() }),
    }
}

fn has_note(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).map_while(Result::ok).any(
        |part| matches!(part, Payload::CustomSection(section) if section.name().starts_with(NOTE)),
    )
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    // It is given whatever somebody made up.
    let encoded = catch_unwind(|| {
        ComponentEncoder::default().module(module).and_then(ComponentEncoder::encode)
    });
    match encoded {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("what it says of itself makes the encoder fail".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadError, component};

    #[test]
    fn what_is_noted_wrongly_is_refused() {
        // A core module with a section of that name that has nothing in it.
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        assert!(matches!(component("a", &module), Err(LoadError::CoreModule { .. })));
        module.extend([0, 15, 14]);
        module.extend(b"component-type");
        let error = component("a", &module).unwrap_err();
        assert!(matches!(error, LoadError::Encode { .. }), "{error}");
        assert!(matches!(component("a", b"\0asn"), Err(LoadError::NotWasm { .. })));
    }
}
