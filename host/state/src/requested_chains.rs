//! Chains that clients request before their configurations are known: a source requests
//! them from the relayer first.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::ChainId;

/// The maximum number of waiting chains, and of bytes in the name of one: clients may
/// request any number of chains.
const MAX_WAITING: usize = 64;
const MAX_NAME: usize = 256;

/// A queue without duplicates.
#[derive(Debug, Default)]
pub(super) struct RequestedChains(Mutex<VecDeque<ChainId>>);

impl RequestedChains {
    /// Adds a chain. Does nothing if there are too many.
    pub(super) fn push(&self, id: &str) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = waiting.iter().all(|other| other.as_str() != id);
        if is_new && waiting.len() < MAX_WAITING && id.len() <= MAX_NAME {
            waiting.push_back(ChainId::from(id));
        }
    }

    /// Removes all chains, in the order in which they were requested.
    pub(super) fn take(&self) -> VecDeque<ChainId> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME, MAX_WAITING, RequestedChains};

    #[test]
    fn each_chain_waits_once_in_order() {
        let requested = RequestedChains::default();
        for id in ["b", "a", "b", &"x".repeat(MAX_NAME + 1)] {
            requested.push(id);
        }
        assert_eq!(requested.take(), ["b".into(), "a".into()]);
        assert!(requested.take().is_empty());
    }

    #[test]
    fn a_bounded_number_of_chains_waits() {
        let requested = RequestedChains::default();
        for id in 0..2 * MAX_WAITING {
            requested.push(&id.to_string());
        }
        assert_eq!(requested.take().len(), MAX_WAITING);
    }
}
