//! The reads of the state by the functions of the contract, as a capsule lists them.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use relayer_rest_common::text::for_log;
use relayer_rest_state::{ChainId, Snapshot};

use super::ReadSet;

/// A read of the state: a function of the contract, with its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateRead<'a> {
    Components,
    ChainIds,
    Chain(&'a str),
    State,
    Changed,
    UnconfirmedSince,
    Sources,
    Families,
    Family(&'a str),
    Scraped,
}

impl<'a> StateRead<'a> {
    /// Returns the read of a function, if the state has it.
    pub(crate) fn new(function: &str, argument: Option<&'a str>) -> Option<Self> {
        Some(match (function, argument) {
            ("version.components", None) => Self::Components,
            ("chains.ids", None) => Self::ChainIds,
            ("chains.config", Some(id)) => Self::Chain(id),
            ("state.current", None) => Self::State,
            ("snapshot.changed", None) => Self::Changed,
            ("snapshot.unconfirmed-since", None) => Self::UnconfirmedSince,
            ("snapshot.sources", None) => Self::Sources,
            ("telemetry.families", None) => Self::Families,
            ("telemetry.family", Some(name)) => Self::Family(name),
            ("telemetry.scraped", None) => Self::Scraped,
            _ => return None,
        })
    }

    /// Returns the name of the function.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Components => "version.components",
            Self::ChainIds => "chains.ids",
            Self::Chain(_) => "chains.config",
            Self::State => "state.current",
            Self::Changed => "snapshot.changed",
            Self::UnconfirmedSince => "snapshot.unconfirmed-since",
            Self::Sources => "snapshot.sources",
            Self::Families => "telemetry.families",
            Self::Family(_) => "telemetry.family",
            Self::Scraped => "telemetry.scraped",
        }
    }

    /// Returns the argument of the function.
    pub(crate) fn argument(self) -> Option<&'a str> {
        match self {
            Self::Chain(name) | Self::Family(name) => Some(name),
            _ => None,
        }
    }
}

/// `chains.config ibc-0`
impl Display for StateRead<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.function())?;
        self.argument().map_or(Ok(()), |argument| write!(f, " {}", for_log(argument)))
    }
}

impl ReadSet {
    /// Returns the recorded reads of the state.
    pub(crate) fn state_reads(&self) -> Vec<StateRead<'_>> {
        let read = |is_read: bool, read| is_read.then_some(read);
        let mut reads: Vec<_> = [
            read(self.components.is_some(), StateRead::Components),
            read(self.chain_ids.is_some(), StateRead::ChainIds),
            read(self.status.is_some(), StateRead::State),
            read(self.changed.is_some(), StateRead::Changed),
            read(self.unconfirmed.is_some(), StateRead::UnconfirmedSince),
            read(self.sources.is_some(), StateRead::Sources),
            read(self.family_names.is_some(), StateRead::Families),
            read(self.scraped.is_some(), StateRead::Scraped),
        ]
        .into_iter()
        .flatten()
        .collect();
        reads.extend(self.chains.iter().map(|(id, _)| StateRead::Chain(id.as_str())));
        reads.extend(self.families.iter().map(|(name, _)| StateRead::Family(name)));
        reads
    }

    /// Returns the reads of the state that a replay needs: the recorded ones, and all chains or
    /// families if some of their reads may be missing in the record.
    pub(crate) fn replayed_reads<'a>(&'a self, snapshot: &'a Snapshot) -> Vec<StateRead<'a>> {
        let mut reads = self.state_reads();
        if self.more && !self.chains.is_empty() {
            let is_missing =
                |id: &&ChainId| self.chains.iter().all(|(recorded, _)| recorded != *id);
            let ids = snapshot.chain_ids().value().iter().flatten().filter(is_missing);
            reads.extend(ids.map(|id| StateRead::Chain(id.as_str())));
        }
        if self.more && !self.families.is_empty() {
            let is_missing =
                |name: &&Arc<str>| self.families.iter().all(|(recorded, _)| recorded != *name);
            let names = snapshot.telemetry().names().value().iter().flatten().filter(is_missing);
            reads.extend(names.map(|name| StateRead::Family(name)));
        }
        reads
    }
}
