//! The dialects of the API: relayers of different ages answer differently.

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As the API is specified, since version 0.7 of the relayer.
    V0_7,
    /// As today's relayer does, 1.10 to 1.13: versions in an envelope, all that
    /// is known of a chain, what workers are set to do; an unknown chain is an
    /// error of status 200, and what HTTP itself refuses has no body.
    V1_13,
}
