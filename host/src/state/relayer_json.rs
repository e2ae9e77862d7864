//! The relayer's own answers, read into state. Both dialects: that of version
//! 0.7, and today's, with its envelope around versions, its larger chains and
//! its workers' data.
//!
//! | file | job |
//! |---|---|
//! | `bounds.rs` | how much is kept of an answer |
//! | `texts.rs` | the texts of an answer |
//! | `envelope.rs` | an answer's envelope, and what can be wrong with an answer |
//! | `chain.rs` | `/chain/:id` |
//! | `state.rs` | `/state` |

mod bounds;
mod chain;
mod envelope;
mod state;
mod texts;

use serde::Deserialize;

use super::{ChainConfig, ChainId, Component, RelayerState};
use bounds::{FirstOf, MAX_CHAINS, MAX_COMPONENTS, MAX_NAME, Unread};
use envelope::result;
pub use envelope::{AnswerError, UnreadField};
use texts::Text;

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

/// Reads an answer of this endpoint, and publishes what it tells: for tests of
/// what that takes.
#[doc(hidden)]
pub fn read_answer(endpoint: &str, body: &[u8]) -> Result<super::StatePublisher, AnswerError> {
    let publisher = super::StatePublisher::new();
    match endpoint {
        "/version" => publisher.set_components(version(body)?),
        "/chains" => {
            let chain = |id: ChainId| ChainConfig::new(id, super::ChainKind::CosmosSdk);
            let chains = chain_ids(body)?.value.into_iter().map(chain).collect();
            // Duplicates are rejected.
            drop(publisher.set_chains(chains));
        }
        "/chain" => publisher.set_chain(chain(body)?.value),
        "/state" => publisher.set_state(state(body)?.value),
        _ => publisher.set_state(state_file(body)?.value),
    }
    Ok(publisher)
}

/// The result of `/version`, bare or in an envelope: `ibc-relayer` first.
pub(super) fn version(body: &[u8]) -> Result<Vec<Component>, AnswerError> {
    #[derive(Deserialize)]
    struct Entry<'a> {
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow)]
        version: Text<'a>,
    }
    type Entries<'a> = FirstOf<Entry<'a>, MAX_COMPONENTS>;
    let is_bare = body.trim_ascii_start().starts_with(b"[");
    let entries: Entries<'_> = if is_bare { envelope::bare(body)? } else { result(body)? };
    let mut components: Vec<Component> = entries
        .elements
        .into_iter()
        .filter(|entry| &*entry.name != REST)
        .filter(|entry| entry.name.len() <= MAX_NAME && entry.version.len() <= MAX_NAME)
        .map(|entry| Component { name: entry.name.to_string(), version: entry.version.to_string() })
        .collect();
    components.sort_by_key(|component| component.name != RELAYER);
    match components.first() {
        Some(first) if first.name == RELAYER => Ok(components),
        _ => Err(AnswerError::Shape {
            position: Position { line: 1, column: 1 },
            field: String::new(),
            message: format!("there is no version of {RELAYER} of at most {MAX_NAME} bytes"),
        }),
    }
}

/// The result of `/chains`. An identifier that cannot be used is left out.
pub(super) fn chain_ids(body: &[u8]) -> Result<Read<Vec<ChainId>>, AnswerError> {
    let mut unread = Unread::default();
    let value = usable_ids(result(body)?, "result", &mut unread);
    Ok(Read { value, unread: unread.into_fields() })
}

/// Returns the identifiers that can be the last segment of a path.
fn usable_ids(
    ids: FirstOf<Text<'_>, MAX_CHAINS>,
    field: &str,
    unread: &mut Unread,
) -> Vec<ChainId> {
    if ids.has_more {
        unread.add(format_args!("{field}"), &format!("only {MAX_CHAINS} chains are read"));
    }
    let mut usable = Vec::with_capacity(ids.elements.len());
    for id in ids.elements {
        if matches!(&*id, "" | "." | "..") || id.len() > MAX_NAME {
            let message = "is not an identifier that can be part of a path";
            unread.add(format_args!("{field}: '{}'", &*id), message);
        } else {
            usable.push(ChainId::from(&*id));
        }
    }
    usable
}

/// The result of `/chain/:id`. A field that cannot be read is left out.
pub(super) fn chain(body: &[u8]) -> Result<Read<ChainConfig>, AnswerError> {
    chain::read(result(body)?)
}

/// The result of `/state`.
pub(super) fn state(body: &[u8]) -> Result<Read<RelayerState>, AnswerError> {
    Ok(result::<state::StateJson>(body)?.0)
}

/// The result of `/state` as it is kept in a file: with its envelope, as the
/// relayer sends it, or without.
pub(super) fn state_file(body: &[u8]) -> Result<Read<RelayerState>, AnswerError> {
    #[derive(Deserialize)]
    struct Keys {
        status: Option<serde::de::IgnoredAny>,
    }
    texts::check(body)?;
    match serde_json::from_slice(body) {
        Ok(Keys { status: Some(_) }) => state(body),
        Ok(Keys { status: None }) | Err(_) => Ok(envelope::bare::<state::StateJson>(body)?.0),
    }
}

#[cfg(test)]
mod tests;
