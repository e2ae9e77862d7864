//! Compiled code, before the engine loads it.

use std::borrow::Cow;
use std::io::{self, Write};

use wasmtime::component::Component;

use super::componentize;
use super::load_error::LoadError;
use super::source_map;

/// The output of the compiler for one input.
///
/// Its code is executed. The only ways to obtain an artefact are therefore to
/// compile in this process ([`Artefact::compile`]), to have a compiler process
/// do so, and to read an entry of the code cache whose hash matches.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Artefact {
    /// The component that was encoded from the input; empty if the input is a component.
    pub(super) encoded: Vec<u8>,
    pub(super) code: Vec<u8>,
    /// The source locations of the code, for `SourceMap::new`.
    pub(super) sources: Vec<u8>,
}

/// The number of an artefact's parts.
pub(super) const PARTS: usize = 3;

/// The size of the lengths that precede the parts, in bytes.
pub(super) const LENGTHS: usize = PARTS * size_of::<u64>();

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
        let sources = source_map::extract(&component);
        let encoded = match component {
            Cow::Borrowed(_) => Vec::new(),
            Cow::Owned(encoded) => encoded,
        };
        Ok(Self { encoded, code, sources })
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

    /// Returns the parts, in the order in which they are written.
    pub(super) fn parts(&self) -> [&[u8]; PARTS] {
        [&self.encoded, &self.code, &self.sources]
    }

    /// Returns the lengths of the parts, in the form in which they precede them.
    pub(super) fn lengths(&self) -> [u8; LENGTHS] {
        let lengths = self.parts().map(|part| (part.len() as u64).to_le_bytes());
        lengths.concat().try_into().expect("each length has its size")
    }

    /// Writes the artefact in the format of [`Artefact::from_process`].
    pub(super) fn write(&self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(&self.lengths())?;
        for part in self.parts() {
            output.write_all(part)?;
        }
        output.flush()
    }

    /// Returns the artefact that a compiler process has written, if it is complete.
    pub(super) fn from_process(output: &[u8]) -> Option<Self> {
        let (lengths, parts) = output.split_first_chunk::<LENGTHS>()?;
        Self::from_parts(lengths, parts)
    }

    /// Returns the sum of these lengths.
    pub(super) fn size(lengths: &[u8; LENGTHS]) -> Option<usize> {
        split(lengths)?.into_iter().try_fold(0_usize, usize::checked_add)
    }

    /// Returns the artefact with parts of these lengths, if there is nothing else.
    pub(super) fn from_parts(lengths: &[u8; LENGTHS], parts: &[u8]) -> Option<Self> {
        let [encoded, code, _] = split(lengths)?;
        if Self::size(lengths)? != parts.len() {
            return None;
        }
        let (encoded, parts) = parts.split_at(encoded);
        let (code, sources) = parts.split_at(code);
        Some(Self { encoded: encoded.into(), code: code.into(), sources: sources.into() })
    }
}

/// Returns the lengths of the parts.
fn split(lengths: &[u8; LENGTHS]) -> Option<[usize; PARTS]> {
    let (lengths, _) = lengths.as_chunks();
    let lengths = lengths.iter().map(|length| usize::try_from(u64::from_le_bytes(*length)).ok());
    lengths.collect::<Option<Vec<_>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::Artefact;

    #[test]
    fn only_a_complete_artefact_is_accepted_from_a_process() {
        for parts in [["", "", ""], ["", "code", ""], ["component", "code", "sources"]] {
            let [encoded, code, sources] = parts.map(Into::into);
            let artefact = Artefact { encoded, code, sources };
            let mut written = Vec::new();
            artefact.write(&mut written).unwrap();
            assert_eq!(Artefact::from_process(&written), Some(artefact));
            for length in 0..written.len() {
                assert_eq!(Artefact::from_process(&written[..length]), None, "{length}");
            }
            written.push(0);
            assert_eq!(Artefact::from_process(&written), None);
        }
        assert_eq!(Artefact::from_process(&[0xff; 40]), None);
    }
}
