//! The sources of the state.

use relayer_rest_state as state;
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lower};

use super::timestamp;

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Source {
    kind: String,
    location: String,
    failure: Option<SourceFailure>,
}

#[derive(Deserialize, Serialize, ComponentType, Lower)]
#[component(record)]
pub(crate) struct SourceFailure {
    message: String,
    since: u64,
}

pub(crate) fn sources(sources: &[state::Source]) -> Vec<Source> {
    let failure = |source: &state::Source| {
        Some(SourceFailure {
            message: source.public_problem()?.to_owned(),
            since: timestamp(source.failure.as_ref()?.since),
        })
    };
    sources
        .iter()
        .map(|source| Source {
            kind: source.kind.to_string(),
            location: source.public_location().to_owned(),
            failure: failure(source),
        })
        .collect()
}
