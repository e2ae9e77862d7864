//! Parses the relayer's own responses, in the dialect of version 0.7 and in the current
//! one, which has an envelope around versions, more fields per chain, and workers' data.
//!
//! | file | job |
//! |---|---|
//! | `bounds.rs` | bounds on the parts of a response that are kept |
//! | `texts.rs` | the texts of a response |
//! | `envelope.rs` | a response's envelope |
//! | `error.rs` | errors in a response |
//! | `chain.rs` | `/chain/:id` |
//! | `state.rs` | `/state` |

mod bounds;
mod chain;
mod envelope;
mod error;
mod state;
mod texts;

use serde::Deserialize;

use bounds::{FirstOf, MAX_CHAINS, MAX_COMPONENTS, MAX_NAME, Unread};
use envelope::result;
pub use error::{ResponseError, UnreadField};
use relayer_rest_common::toml_text::Position;
use relayer_rest_state::{
    ChainConfig, ChainId, ChainKind, Component, RelayerDialect, RelayerState, StatePublisher,
};

use texts::Text;

/// The name under which a relayer lists itself.
const RELAYER: &str = "ibc-relayer";

/// The name under which a relayer lists its own REST server, which is not the server that
/// serves the API here.
const REST: &str = "ibc-relayer-rest";

/// A parsed value, and the fields that could not be read.
#[derive(Debug, PartialEq)]
pub(super) struct Read<T> {
    pub(super) value: T,
    pub(super) unread: Vec<UnreadField>,
}

/// Parses a response of this endpoint and publishes it, for tests of the memory that this
/// takes.
#[doc(hidden)]
pub fn read_response(endpoint: &str, body: &[u8]) -> Result<StatePublisher, ResponseError> {
    let publisher = StatePublisher::new();
    match endpoint {
        "/version" => publisher.set_components(version(body)?.0),
        "/chains" => {
            let chain = |id: ChainId| ChainConfig::new(id, ChainKind::CosmosSdk);
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

/// Parses the result of `/version`, bare or in an envelope, from which the dialect follows.
/// `ibc-relayer` comes first.
pub(super) fn version(body: &[u8]) -> Result<(Vec<Component>, RelayerDialect), ResponseError> {
    #[derive(Deserialize)]
    struct VersionEntry<'a> {
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow)]
        version: Text<'a>,
    }
    type VersionEntries<'a> = FirstOf<VersionEntry<'a>, MAX_COMPONENTS>;
    let is_bare = body.trim_ascii_start().starts_with(b"[");
    let entries: VersionEntries<'_> = if is_bare { envelope::bare(body)? } else { result(body)? };
    let mut components: Vec<Component> = entries
        .elements
        .into_iter()
        .filter(|entry| &*entry.name != REST)
        .filter(|entry| entry.name.len() <= MAX_NAME && entry.version.len() <= MAX_NAME)
        .map(|entry| Component { name: entry.name.to_string(), version: entry.version.to_string() })
        .collect();
    components.sort_by_key(|component| component.name != RELAYER);
    match components.first() {
        Some(first) if first.name == RELAYER => {
            Ok((components, if is_bare { RelayerDialect::V0_7 } else { RelayerDialect::V1_13 }))
        }
        _ => Err(ResponseError::Shape {
            position: Position { line: 1, column: 1 },
            field: String::new(),
            message: format!("no version of {RELAYER} of at most {MAX_NAME} bytes"),
        }),
    }
}

/// Parses the result of `/chains`. Identifiers that cannot be used are left out.
pub(super) fn chain_ids(body: &[u8]) -> Result<Read<Vec<ChainId>>, ResponseError> {
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
        unread
            .add(format_args!("{field}"), &format!("only the first {MAX_CHAINS} chains are read"));
    }
    let mut usable = Vec::with_capacity(ids.elements.len());
    for id in ids.elements {
        if matches!(&*id, "" | "." | "..") || id.len() > MAX_NAME {
            let message = "not an identifier that can be part of a path";
            unread.add(format_args!("{field}: '{}'", &*id), message);
        } else {
            usable.push(ChainId::from(&*id));
        }
    }
    usable
}

/// Parses the response to a command, whose result has no meaning.
#[cfg(feature = "upstream")]
pub(super) fn command(body: &[u8]) -> Result<(), ResponseError> {
    result::<serde::de::IgnoredAny>(body).map(drop)
}

/// Parses the result of `/chain/:id`. Fields that cannot be read are left out.
pub(super) fn chain(body: &[u8]) -> Result<Read<ChainConfig>, ResponseError> {
    chain::read(result(body)?)
}

/// Parses the result of `/state`.
pub(super) fn state(body: &[u8]) -> Result<Read<RelayerState>, ResponseError> {
    Ok(result::<state::StateJson>(body)?.0)
}

/// Parses the result of `/state` from a file: with its envelope, in the form that the
/// relayer sends, or without.
pub(super) fn state_file(body: &[u8]) -> Result<Read<RelayerState>, ResponseError> {
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
