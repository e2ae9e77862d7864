//! The encodings in which clients can have a body.

use std::io::Write;

use flate2::write::GzEncoder;
use http::HeaderValue;

/// An encoding of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Zstandard, `zstd`.
    Zstd,
    /// Brotli, `br`.
    Brotli,
    /// Gzip, `gzip`.
    Gzip,
}

/// How hard each tries: bodies are made anew with each change of the state,
/// and that must not cost more than it saves.
const ZSTD_LEVEL: i32 = 3;
const BROTLI_QUALITY: i32 = 4;
const GZIP_LEVEL: u32 = 5;

/// The window of Brotli, as a power of two: 256 KiB.
const BROTLI_WINDOW: i32 = 18;

impl Encoding {
    /// All of them, the one that is best where a client takes any first.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Its name in HTTP.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    pub(super) fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }

    /// The body in this encoding. Takes time: about a second for 100 MB.
    pub(super) fn encode(self, body: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL),
            Self::Brotli => {
                let params = brotli::enc::BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    lgwin: BROTLI_WINDOW,
                    size_hint: body.len(),
                    ..Default::default()
                };
                let mut encoded = Vec::new();
                brotli::BrotliCompress(&mut &*body, &mut encoded, &params)?;
                Ok(encoded)
            }
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
                encoder.write_all(body)?;
                encoder.finish()
            }
        }
    }
}
