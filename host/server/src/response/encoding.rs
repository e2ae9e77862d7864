//! The content encodings that clients can request.

use std::io::Write;

use flate2::write::GzEncoder;
use http::HeaderValue;

/// A content encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Zstandard, `zstd`.
    Zstd,
    /// Brotli, `br`.
    Brotli,
    /// Gzip, `gzip`.
    Gzip,
}

/// The compression levels. Bodies are compressed again after each change of the state,
/// which must not cost more than it saves.
const ZSTD_LEVEL: i32 = 3;
const BROTLI_QUALITY: i32 = 4;
pub(crate) const GZIP_LEVEL: u32 = 5;

/// The window size of Brotli, as a power of two: 256 KiB.
const BROTLI_WINDOW: i32 = 18;

impl Encoding {
    /// All encodings, in the order of preference if a client ranks them equally.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns the name in HTTP.
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

    /// Encodes a body. Takes about a second for 100 MB.
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
