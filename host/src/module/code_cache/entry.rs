//! The format of an entry: a header with a hash over all of it, then the code.

use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};

use crate::module::artefact::Artefact;

/// The first bytes of each entry: the format and its version.
const MAGIC: [u8; 8] = *b"rrcode\0\x01";

/// The header: [`MAGIC`], the lengths of the two parts, and the hash.
const HEADER: usize = LENGTHS + blake3::OUT_LEN;
const LENGTHS: usize = MAGIC.len() + 2 * size_of::<u64>();

/// The end of the names of entries.
const SUFFIX: &str = ".code";

/// Identifies compiled code: the input, and everything else that the output of
/// the compiler depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::module) struct Key(blake3::Hash);

/// A reason not to use an entry.
#[derive(Debug, thiserror::Error)]
pub(super) enum Damage {
    #[error("it is not a file that only this user can write to")]
    Shared,
    #[error("it is larger than the code cache")]
    Size,
    #[error("its header is wrong")]
    Header,
    #[error("its checksum does not match")]
    Hash,
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Key {
    /// Returns the key of this input for the engine's compiler, its settings and
    /// the processor that it compiles for.
    pub(in crate::module) fn new(engine: &wasmtime::Engine, input: &[u8]) -> Self {
        let mut compiler = Bytes(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut compiler);
        // The encoder of core modules comes with this crate.
        env!("CARGO_PKG_VERSION").hash(&mut compiler);
        let mut key = blake3::Hasher::new_derive_key("relayer-rest code cache: key");
        key.update(compiler.0.finalize().as_bytes()).update(blake3::hash(input).as_bytes());
        Self(key.finalize())
    }

    /// Returns the name of the entry's file.
    pub(super) fn file_name(self) -> String {
        format!("{}{SUFFIX}", self.0)
    }
}

/// Whether [`Key::file_name`] returns such a name.
pub(super) fn is_file_name(name: &str) -> bool {
    name.strip_suffix(SUFFIX).is_some_and(|key| blake3::Hash::from_hex(key).is_ok())
}

/// The length of an entry in bytes.
pub(super) fn length(artefact: &Artefact) -> u64 {
    (HEADER + artefact.encoded.len() + artefact.code.len()) as u64
}

/// Writes an entry.
pub(super) fn write(key: Key, artefact: &Artefact, file: &mut impl Write) -> io::Result<()> {
    let mut header = [0; HEADER];
    let (lengths, hash_of_all) = header.split_at_mut(LENGTHS);
    let (magic, lengths_of_parts) = lengths.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    for (field, part) in lengths_of_parts.chunks_mut(8).zip([&artefact.encoded, &artefact.code]) {
        field.copy_from_slice(&(part.len() as u64).to_le_bytes());
    }
    hash_of_all.copy_from_slice(hash(key, lengths, artefact).as_bytes());
    file.write_all(&header)?;
    file.write_all(&artefact.encoded)?;
    file.write_all(&artefact.code)
}

/// Reads an entry from a file of this length, and verifies the bytes that it
/// returns.
pub(super) fn read(key: Key, length: u64, file: &mut impl Read) -> Result<Artefact, Damage> {
    let mut header = [0; HEADER];
    if length < HEADER as u64 {
        return Err(Damage::Header);
    }
    file.read_exact(&mut header)?;
    let (lengths, stored) = header.split_at(LENGTHS);
    let (magic, lengths_of_parts) = lengths.split_at(MAGIC.len());
    let (encoded, code) = lengths_of_parts.split_at(size_of::<u64>());
    let number = |field: &[u8]| {
        u64::from_le_bytes(field.try_into().expect("the header's fields have this length"))
    };
    let (encoded, code) = (number(encoded), number(code));
    // What is allocated is no more than there is in the file.
    let all = encoded.checked_add(code).and_then(|parts| parts.checked_add(HEADER as u64));
    if *magic != MAGIC || all != Some(length) {
        return Err(Damage::Header);
    }
    let mut part = |length: u64| {
        let mut part = vec![0; usize::try_from(length).map_err(|_| Damage::Header)?];
        file.read_exact(&mut part)?;
        Ok::<_, Damage>(part)
    };
    let artefact = Artefact { encoded: part(encoded)?, code: part(code)? };
    if hash(key, lengths, &artefact) != *stored {
        return Err(Damage::Hash);
    }
    Ok(artefact)
}

/// Returns the hash of an entry: of its key, so that no entry is taken for
/// another one, and of all bytes of the file except for the hash.
fn hash(key: Key, lengths: &[u8], artefact: &Artefact) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_derive_key("relayer-rest code cache: entry");
    hasher.update(key.0.as_bytes()).update(lengths);
    hasher.update(&artefact.encoded).update(&artefact.code);
    hasher.finalize()
}

/// Feeds BLAKE3 with what is hashed: 64 bits are too few for a key.
struct Bytes(blake3::Hasher);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = self.0.finalize();
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        u64::from_le_bytes(*first)
    }
}
