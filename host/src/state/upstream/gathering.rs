//! The chains, asked for one by one and published together.

use std::collections::{HashSet, VecDeque};

use crate::state::{ChainConfig, ChainId};

pub(super) struct Gathering {
    to_ask: VecDeque<ChainId>,
    found: Vec<ChainConfig>,
    is_first: bool,
}

impl Gathering {
    /// These chains are to be asked for; `is_first` where none are known yet.
    pub(super) fn new(mut ids: Vec<ChainId>, is_first: bool) -> Self {
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        Self { to_ask: ids.into(), found: Vec::new(), is_first }
    }

    pub(super) fn is_first(&self) -> bool {
        self.is_first
    }

    /// The chain to ask for next.
    pub(super) fn next(&self) -> Option<&ChainId> {
        self.to_ask.front()
    }

    /// The chain that was asked for is configured like this.
    pub(super) fn found(&mut self, chain: ChainConfig) {
        self.to_ask.pop_front();
        self.found.push(chain);
    }

    /// The chain that was asked for is not there any more.
    pub(super) fn not_found(&mut self) {
        self.to_ask.pop_front();
    }

    /// The chains, once all are asked for.
    pub(super) fn done(self) -> Result<Vec<ChainConfig>, Self> {
        if self.to_ask.is_empty() { Ok(self.found) } else { Err(self) }
    }
}
