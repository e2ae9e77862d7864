//! The relayer's own answers, read into state. Both dialects: that of version
//! 0.7, and today's, with its envelope around versions, its larger chains and
//! its workers' data.
//!
//! | file | job |
//! |---|---|
//! | `envelope.rs` | an answer's envelope, and what can be wrong with an answer |
//! | `chain.rs` | `/chain/:id` |
//! | `state.rs` | `/state` |

mod chain;
mod envelope;
mod state;

use serde::Deserialize;

use super::{ChainConfig, ChainId, Component, RelayerState};
use envelope::result;
pub use envelope::{AnswerError, UnreadField};

use crate::toml_text::Position;

/// The name under which a relayer lists itself.
const RELAYER: &str = "ibc-relayer";

/// The name under which a relayer lists the server of its REST API, which is
/// not what serves it here.
const REST: &str = "ibc-relayer-rest";

/// What was read, and the fields that could not be.
#[derive(Debug, PartialEq)]
pub(super) struct Read<T> {
    pub(super) value: T,
    pub(super) unread: Vec<UnreadField>,
}

/// Reads an answer as each of those that a relayer gives, and publishes what
/// there is: for fuzzing.
#[doc(hidden)]
#[must_use]
pub fn read_any(body: &[u8]) -> super::StatePublisher {
    let publisher = super::StatePublisher::new();
    if let Ok(components) = version(body) {
        publisher.set_components(components);
    }
    let ids = chain_ids(body).unwrap_or_default();
    let mut chains: Vec<_> = ids
        .into_iter()
        .map(|id| ChainConfig::new(id.as_str(), super::ChainKind::CosmosSdk))
        .collect();
    chains.extend(chain(body).map(|read| read.value));
    // What is there twice is refused.
    drop(publisher.set_chains(chains));
    if let Ok(Read { value, .. }) = state(body).or_else(|_| state_file(body)) {
        publisher.set_state(value);
    }
    publisher
}

/// The result of `/version`, bare or in an envelope: `ibc-relayer` first.
pub(super) fn version(body: &[u8]) -> Result<Vec<Component>, AnswerError> {
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        version: String,
    }
    let is_bare = body.trim_ascii_start().starts_with(b"[");
    let entries: Vec<Entry> = if is_bare { envelope::bare(body)? } else { result(body)? };
    let mut components: Vec<Component> = entries
        .into_iter()
        .filter(|entry| entry.name != REST)
        .map(|entry| Component { name: entry.name, version: entry.version })
        .collect();
    components.sort_by_key(|component| component.name != RELAYER);
    match components.first() {
        Some(first) if first.name == RELAYER => Ok(components),
        _ => Err(AnswerError::Shape {
            position: Position { line: 1, column: 1 },
            field: String::new(),
            message: format!("there is no version of {RELAYER}"),
        }),
    }
}

/// The result of `/chains`.
pub(super) fn chain_ids(body: &[u8]) -> Result<Vec<ChainId>, AnswerError> {
    Ok(result::<Vec<String>>(body)?.into_iter().map(ChainId::from).collect())
}

/// The result of `/chain/:id`. A field that cannot be read is left out.
pub(super) fn chain(body: &[u8]) -> Result<Read<ChainConfig>, AnswerError> {
    chain::read(result(body)?)
}

/// The result of `/state`.
pub(super) fn state(body: &[u8]) -> Result<Read<RelayerState>, AnswerError> {
    Ok(result::<state::StateJson>(body)?.read())
}

/// The result of `/state` as it is kept in a file: with its envelope, as the
/// relayer sends it, or without.
pub(super) fn state_file(body: &[u8]) -> Result<Read<RelayerState>, AnswerError> {
    #[derive(Deserialize)]
    struct Keys {
        status: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_slice(body) {
        Ok(Keys { status: Some(_) }) => state(body),
        Ok(Keys { status: None }) | Err(_) => Ok(envelope::bare::<state::StateJson>(body)?.read()),
    }
}

#[cfg(test)]
mod tests;
