//! Events in gzip (RFC 1952), each compressed once for all clients.
//!
//! The blocks of an event refer to no data before them, and end at a byte. So they are part
//! of the streams of all clients, which differ in the checksum at their end only.

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};

use crate::response::GZIP_LEVEL;

/// The start of a stream: deflate, without a name, a time or a system.
const HEADER: Bytes = Bytes::from_static(b"\x1f\x8b\x08\0\0\0\0\0\0\xff");

/// The last block, which is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// The maximum number of bytes of a block that is not compressed.
const MAX_STORED: usize = u16::MAX as usize;

/// The compressed form of an event.
#[derive(Debug)]
pub(super) struct Blocks {
    bytes: Bytes,
    checksum: Crc,
}

/// The compressed stream of a client.
#[derive(Debug, Default)]
pub(super) struct GzipStream {
    /// The checksum of the events before the last part.
    checksum: Crc,
    last: LastPart,
}

/// The part of a stream that was returned last, which can be taken back.
#[derive(Debug, Default)]
enum LastPart {
    #[default]
    None,
    Header,
    /// An event, with its checksum.
    Event(Crc),
}

impl Blocks {
    /// Compresses a text, and flushes it.
    pub(super) fn deflated(text: &[u8]) -> Self {
        // The blocks are flushed if they have not filled the room.
        let mut blocks = Vec::with_capacity(text.len());
        let mut encoder = Compress::new(Compression::new(GZIP_LEVEL), false);
        let result = encoder.compress_vec(text, &mut blocks, FlushCompress::Sync);
        let is_flushed = result.is_ok() && blocks.len() < blocks.capacity();
        if !is_flushed || encoder.total_in() != text.len() as u64 {
            return Self::stored(text);
        }
        Self { bytes: blocks.into_boxed_slice().into(), checksum: checksum(text) }
    }

    /// Returns a text without compression.
    pub(super) fn stored(text: &[u8]) -> Self {
        let mut blocks = Vec::with_capacity(text.len() + 5 * text.len().div_ceil(MAX_STORED));
        for part in text.chunks(MAX_STORED) {
            let length = u16::try_from(part.len()).expect("it is at most the largest one");
            blocks.push(0);
            blocks.extend(length.to_le_bytes());
            blocks.extend((!length).to_le_bytes());
            blocks.extend(part);
        }
        Self { bytes: blocks.into(), checksum: checksum(text) }
    }
}

impl GzipStream {
    /// Returns the bytes before all events.
    pub(super) fn begin(&mut self) -> Bytes {
        self.last = LastPart::Header;
        HEADER
    }

    /// Adds the next event, and returns its bytes.
    pub(super) fn add(&mut self, blocks: &Blocks) -> Bytes {
        self.keep_last();
        let mut checksum = Crc::new();
        checksum.combine(&blocks.checksum);
        self.last = LastPart::Event(checksum);
        blocks.bytes.clone()
    }

    /// Takes the part back that was returned last, since the client does not get it. Returns
    /// the bytes before the next event, if these were taken back.
    pub(super) fn take_back(&mut self) -> Bytes {
        match std::mem::take(&mut self.last) {
            LastPart::Header => self.begin(),
            LastPart::None | LastPart::Event(_) => Bytes::new(),
        }
    }

    fn keep_last(&mut self) {
        if let LastPart::Event(checksum) = std::mem::take(&mut self.last) {
            self.checksum.combine(&checksum);
        }
    }

    /// Returns the bytes after all events.
    pub(super) fn end(&mut self) -> Bytes {
        self.keep_last();
        let Self { checksum, .. } = self;
        let end = [checksum.sum().to_le_bytes(), checksum.amount().to_le_bytes()];
        [&LAST_BLOCK[..], end.as_flattened()].concat().into()
    }
}

fn checksum(text: &[u8]) -> Crc {
    let mut checksum = Crc::new();
    checksum.update(text);
    checksum
}

#[cfg(test)]
mod tests {
    use super::{Blocks, GzipStream, MAX_STORED};
    use flate2::write::GzDecoder;
    use std::io::Write;

    #[test]
    fn each_event_can_be_read_before_the_next_one_and_shared_by_streams() {
        let mut random = fastrand::Rng::with_seed(3);
        let noise: Vec<u8> = (0..=2 * MAX_STORED).map(|_| random.u8(..)).collect();
        let texts = [&b"data: 1\n\n"[..], b":\n\n", &b"data: 2\n".repeat(1_000), &noise, b""];
        let blocks = texts.map(Blocks::deflated);
        for order in [vec![0, 1, 2, 3, 4], vec![3, 2, 2, 1, 0, 4], vec![]] {
            let mut stream = GzipStream::default();
            let mut decoder = GzDecoder::new(Vec::new());
            decoder.write_all(&stream.begin()).unwrap();
            let mut sent: Vec<u8> = Vec::new();
            for number in order {
                decoder.write_all(&stream.add(&blocks[number])).unwrap();
                decoder.flush().unwrap();
                sent.extend(texts[number]);
                assert_eq!(decoder.get_ref(), &sent);
            }
            decoder.write_all(&stream.end()).unwrap();
            // The checksum at the end is compared.
            assert_eq!(decoder.finish().unwrap(), sent);
        }
        assert!(blocks[2].bytes.len() < 100, "{}", blocks[2].bytes.len());
        assert_eq!(blocks[3].bytes.len(), noise.len() + 3 * 5);
    }
}
