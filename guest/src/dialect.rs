//! The dialects of the API: response formats of different relayer versions.

/// The format of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The specified format, since version 0.7 of the relayer.
    V0_7,
    /// The format of relayers 1.10 to 1.13: versions in an envelope, all known fields of
    /// a chain, the settings of workers; an unknown chain is an error with status 200,
    /// and the responses 404 and 405 of the router have no body.
    V1_13,
}
