//! The format of an entry: a header with a hash of the entry, then the compressed
//! artefact.

use std::hash::{Hash, Hasher};
use std::io;

use crate::artefact::{Artefact, LENGTHS};

/// The first bytes of each entry: the format and its version.
const MAGIC: [u8; 8] = *b"rrcode\0\x02";

/// The size of the header: [`MAGIC`], the uncompressed lengths of the parts, and the hash.
const HEADER: usize = START + blake3::OUT_LEN;
const START: usize = MAGIC.len() + LENGTHS;

/// The fastest level, because starts wait for it.
const COMPRESSION: i32 = 1;

/// The suffix of the names of entries.
const SUFFIX: &str = ".code";

/// Identifies compiled code: the input, and everything else that affects the output of
/// the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(blake3::Hash);

/// A reason not to use an entry.
#[derive(Debug, thiserror::Error)]
pub(super) enum Damage {
    #[error("not a file that only this user can write to")]
    Shared,
    #[error("larger than the code cache")]
    Size,
    #[error("invalid header")]
    Header,
    #[error("checksum mismatch")]
    Hash,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Key {
    /// Returns the key of this input for the engine's compiler, its settings and
    /// the processor that it compiles for.
    pub(crate) fn new(engine: &wasmtime::Engine, input: &[u8]) -> Self {
        let mut compiler = Bytes(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut compiler);
        // The encoder of core modules is part of this crate.
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

/// Returns whether a name has the form of [`Key::file_name`].
pub(super) fn is_file_name(name: &str) -> bool {
    name.strip_suffix(SUFFIX).is_some_and(|key| blake3::Hash::from_hex(key).is_ok())
}

/// Returns the content of an entry.
pub(super) fn encode(key: Key, artefact: &Artefact) -> io::Result<Vec<u8>> {
    let body = zstd::bulk::compress(&artefact.parts().concat(), COMPRESSION)?;
    let mut entry = Vec::with_capacity(HEADER + body.len());
    entry.extend(MAGIC);
    entry.extend(artefact.lengths());
    entry.extend(hash(key, &entry, &body).as_bytes());
    entry.extend(body);
    Ok(entry)
}

/// Verifies the bytes of an entry and returns its artefact.
pub(super) fn decode(key: Key, entry: &[u8]) -> Result<Artefact, Damage> {
    let (header, body) = entry.split_first_chunk::<HEADER>().ok_or(Damage::Header)?;
    let (start, stored) = header.split_at(START);
    let (magic, lengths) = start.split_at(MAGIC.len());
    if *magic != MAGIC {
        return Err(Damage::Header);
    }
    if hash(key, start, body) != *stored {
        return Err(Damage::Hash);
    }
    // From here on, the bytes are known to be unchanged.
    let lengths = lengths.first_chunk().ok_or(Damage::Header)?;
    let size = Artefact::size(lengths).ok_or(Damage::Header)?;
    let parts = zstd::bulk::decompress(body, size)?;
    Artefact::from_parts(lengths, &parts).ok_or(Damage::Header)
}

/// Returns the hash of an entry: of its key, so that it is not mistaken for another
/// entry, and of all bytes of the file except the hash.
fn hash(key: Key, start: &[u8], body: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_derive_key("relayer-rest code cache: entry");
    hasher.update(key.0.as_bytes()).update(start).update(body);
    hasher.finalize()
}

/// Feeds BLAKE3 with the hashed bytes: 64 bits are too few for a key.
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
