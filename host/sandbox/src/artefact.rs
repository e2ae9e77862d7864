//! Compiled code, before the engine loads it.

use std::borrow::Cow;
use std::io::{self, Write};

use wasmtime::component::Component;

use super::componentize;
use super::load_error::LoadError;

/// The output of the compiler for one input.
///
/// Its code is executed. The only ways to obtain an artefact are therefore to
/// compile in this process ([`Artefact::compile`]), to have a compiler process
/// do so, and to read an entry of the code cache whose hash matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Artefact {
    /// The component that was encoded from the input; empty if the input is a component.
    pub(super) encoded: Vec<u8>,
    pub(super) code: Vec<u8>,
}

/// The size of the header that a compiler process writes before the two parts, in bytes:
/// their lengths.
const LENGTHS: usize = 16;

impl Artefact {
    /// Compiles a component, or a core module that declares its world, in this process.
    pub(super) fn compile(
        engine: &wasmtime::Engine,
        name: &str,
        input: &[u8],
    ) -> Result<Self, LoadError> {
        let component = componentize::component(name, input)?;
        let code = engine.precompile_component(&component).map_err(|error| {
            let reason = format!("{error:#}");
            LoadError::Invalid { name: name.to_owned(), reason }
        })?;
        let encoded = match component {
            Cow::Borrowed(_) => Vec::new(),
            Cow::Owned(encoded) => encoded,
        };
        Ok(Self { encoded, code })
    }

    /// Returns the component that was compiled for this input.
    pub(super) fn component<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        if self.encoded.is_empty() { input } else { &self.encoded }
    }

    /// Makes the code executable.
    #[allow(unsafe_code, reason = "wasmtime cannot check machine code")]
    pub(super) fn load(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Component> {
        // SAFETY: The code must be the unmodified output of wasmtime's
        // `precompile_component`. It is, for each source of artefacts: `compile` calls
        // that function; a compiler process is of the same build and returns its result
        // over a pipe that only it holds; the code cache verifies a hash of all bytes of
        // an entry, which only this user can write. The bytes are in memory that only
        // this process has, so they cannot change after that, and wasmtime copies them.
        // It rejects by itself the output of another version, with other settings, or for
        // another processor.
        unsafe { Component::deserialize(engine, &self.code) }
    }

    /// Writes the artefact in the format of [`Artefact::from_process`].
    pub(super) fn write(&self, output: &mut impl Write) -> io::Result<()> {
        for part in [&self.encoded, &self.code] {
            output.write_all(&(part.len() as u64).to_le_bytes())?;
        }
        output.write_all(&self.encoded)?;
        output.write_all(&self.code)?;
        output.flush()
    }

    /// Returns the artefact that a compiler process has written, if it is complete.
    pub(super) fn from_process(mut output: Vec<u8>) -> Option<Self> {
        let (lengths, parts) = output.split_first_chunk::<LENGTHS>()?;
        let (encoded, code) = lengths.split_at(LENGTHS / 2);
        let length =
            |bytes: &[u8]| usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok();
        let encoded = length(encoded)?;
        let code = length(code)?;
        if encoded.checked_add(code) != Some(parts.len()) {
            return None;
        }
        let code = output.split_off(LENGTHS + encoded);
        output.drain(..LENGTHS);
        Some(Self { encoded: output, code })
    }
}

#[cfg(test)]
mod tests {
    use super::Artefact;

    #[test]
    fn only_a_complete_artefact_is_accepted_from_a_process() {
        for (encoded, code) in [("", ""), ("", "code"), ("component", "code")] {
            let encoded = encoded.into();
            let code = code.into();
            let artefact = Artefact { encoded, code };
            let mut written = Vec::new();
            artefact.write(&mut written).unwrap();
            assert_eq!(Artefact::from_process(written.clone()), Some(artefact));
            for length in 0..written.len() {
                assert_eq!(Artefact::from_process(written[..length].to_vec()), None, "{length}");
            }
            written.push(0);
            assert_eq!(Artefact::from_process(written), None);
        }
        assert_eq!(Artefact::from_process([0xff; 40].to_vec()), None);
    }
}
