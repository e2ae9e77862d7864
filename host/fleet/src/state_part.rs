//! The values of a state in parts.

use relayer_rest_state::{ChainConfig, ChainId, Known};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::part::{MAX_CONTENT, Part, PartError, PartName, Parts};

/// A chain that is listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChainPart {
    pub(crate) id: ChainId,
    pub(crate) config: Known<ChainConfig>,
}

/// The state without its workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StateHead {
    pub(crate) chains: Known<Vec<ChainId>>,
}

/// The name of the first part of a value.
pub(crate) const VERSIONS: &str = "versions";
pub(crate) const DIALECT: &str = "dialect";
pub(crate) const CHAINS: &str = "chains";
pub(crate) const STATE: &str = "state";
pub(crate) const TELEMETRY: &str = "telemetry";

/// The first token of the names of values of which there are several.
pub(crate) const CHAIN: &str = "chain";
pub(crate) const FAMILY: &str = "family";
pub(crate) const WORKERS: &str = "workers";

/// Returns the name of a value, of which there is one.
pub(crate) fn single(name: &str) -> PartName {
    name.parse().expect("it is a token")
}

/// Returns the name of a value of which there are several, by a text of any characters.
pub(crate) fn hashed(kind: &str, text: &str) -> PartName {
    let hash = blake3::hash(text.as_bytes()).to_hex();
    single(&format!("{kind}.{}", &hash[..32]))
}

/// Returns the name of the workers of a bucket.
pub(crate) fn workers(bucket: usize) -> PartName {
    single(&format!("{WORKERS}.{bucket:04x}"))
}

/// Returns whether a part is of the versions or chains, which a relayer is asked for less often than
/// for its state.
pub(crate) fn is_of_chains(name: &PartName) -> bool {
    let kind = name.as_str().split('.').next();
    [VERSIONS, DIALECT, CHAINS, CHAIN].map(Some).contains(&kind)
}

/// Returns the parts of a value: one, or several if it is large.
pub(crate) fn split<T: Serialize>(name: &PartName, value: &T) -> Parts {
    let whole = Part::new(value);
    if whole.content.len() <= MAX_CONTENT {
        return Parts::from([(name.clone(), whole)]);
    }
    let pieces = (0..whole.content.len()).step_by(MAX_CONTENT).map(|start| {
        let end = whole.content.len().min(start + MAX_CONTENT);
        Part::from_content(whole.content.slice(start..end))
    });
    let names = (0..).map(|place| if place == 0 { name.clone() } else { piece(name, place) });
    names.zip(pieces).collect()
}

/// Returns the parts of a value: its first part, and the following ones of a large value.
pub(crate) fn pieces<'a>(
    parts: &'a Parts,
    name: &'a PartName,
) -> impl Iterator<Item = &'a Part> + Clone {
    let later = (1..).map_while(|place| parts.get(&piece(name, place)));
    parts.get(name).into_iter().chain(later)
}

/// Returns the value of parts.
pub(crate) fn join<'a, T: DeserializeOwned>(
    mut pieces: impl Iterator<Item = &'a Part> + Clone,
) -> Result<T, PartError> {
    match (pieces.clone().nth(1), pieces.next()) {
        (None, Some(part)) => part.value(),
        (_, first) => {
            let all = first.into_iter().chain(pieces);
            let content: Vec<u8> = all.flat_map(|part| &part.content).copied().collect();
            Part::from_content(content.into()).value()
        }
    }
}

fn piece(name: &PartName, place: u32) -> PartName {
    single(&format!("{name}.{place:04x}"))
}

#[cfg(test)]
mod tests {
    use super::{hashed, join, pieces, single, split};
    use crate::part::{MAX_CONTENT, Parts};

    #[test]
    fn a_large_value_has_several_parts() {
        let name = single("a");
        for (length, count) in
            [(0, 1), (MAX_CONTENT - 5, 1), (MAX_CONTENT, 2), (20 * MAX_CONTENT, 21)]
        {
            let value = "x".repeat(length);
            let mut parts = split(&name, &value);
            assert_eq!(parts.len(), count, "{length}");
            assert!(parts.values().all(|part| part.content.len() <= MAX_CONTENT));
            parts.append(&mut split(&single("ab"), &"other"));
            assert_eq!(join::<String>(pieces(&parts, &name)).unwrap(), value);
        }
    }

    #[test]
    fn a_missing_value_is_an_error() {
        assert!(join::<String>(pieces(&Parts::new(), &single("a"))).is_err());
    }

    #[test]
    fn any_text_has_a_name() {
        let names = ["", "cosmoshub-4", "a b", "ü", "*"].map(|text| hashed("chain", text));
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name));
        }
    }
}
