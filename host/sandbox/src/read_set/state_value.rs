//! The values of the state that a response was derived from, as keys of an index.

use std::sync::Arc;

use relayer_rest_state::{ChainId, ListedChain, Snapshot, Versioned};

use super::ReadSet;

/// A value of the state that a module read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StateValue {
    /// The versions of the relayer's components.
    Components,
    /// The identifiers of all chains.
    ChainIds,
    /// A chain, or its absence.
    Chain(ChainId),
    /// The relayer's state.
    State,
    /// The time of the last change.
    Changed,
    /// The time since which the state has not been confirmed.
    UnconfirmedSince,
    /// The sources of the state.
    Sources,
    /// The names of the families of metrics.
    Families,
    /// A family of metrics, or its absence.
    Family(Arc<str>),
    /// The time of the last scrape of the telemetry.
    Scraped,
    /// Any value: the record of the reads is not complete.
    Any,
}

impl StateValue {
    /// Returns whether the value differs between two snapshots of one publisher.
    #[must_use]
    pub fn differs(&self, before: &Snapshot, now: &Snapshot) -> bool {
        /// Returns whether a part of the two snapshots differs.
        fn differ<'a, T: PartialEq>(
            before: &'a Snapshot,
            now: &'a Snapshot,
            part: impl Fn(&'a Snapshot) -> T,
        ) -> bool {
            part(before) != part(now)
        }
        let differ_known = |is_known: fn(&Snapshot) -> bool| differ(before, now, is_known);
        match self {
            Self::Components => differ(before, now, |state| state.components().generation()),
            Self::ChainIds => differ(before, now, |state| state.chain_ids().generation()),
            Self::Chain(id) => {
                let generation =
                    |state: &Snapshot| state.chain(id.as_str()).map(ListedChain::generation);
                generation(before) != generation(now)
                    || differ_known(|state| state.chain_ids().value().is_ok())
            }
            Self::State => differ(before, now, |state| state.status().generation()),
            Self::Changed => differ(before, now, |state| state.changed().generation),
            Self::UnconfirmedSince => differ(before, now, Snapshot::unconfirmed_since),
            Self::Sources => differ(before, now, |state| state.sources().generation()),
            Self::Families => differ(before, now, |state| state.telemetry().names().generation()),
            Self::Family(name) => {
                let generation =
                    |state: &Snapshot| state.telemetry().family(name).map(Versioned::generation);
                generation(before) != generation(now)
                    || differ_known(|state| state.telemetry().names().value().is_ok())
            }
            Self::Scraped => differ(before, now, |state| state.telemetry().scraped()),
            Self::Any => before.generation() != now.generation(),
        }
    }
}

impl ReadSet {
    /// Returns the values of the state that were read.
    #[must_use]
    pub fn state_values(&self) -> Vec<StateValue> {
        // Each new field is either a value of the state or a part of the request.
        let Self {
            components,
            chain_ids,
            chains,
            status,
            changed,
            unconfirmed,
            sources,
            family_names,
            families,
            scraped,
            headers: _,
            all_headers: _,
            query: _,
            more,
        } = self;
        let value = |is_read: bool, value| is_read.then_some(value);
        let mut values: Vec<_> = [
            value(components.is_some(), StateValue::Components),
            value(chain_ids.is_some(), StateValue::ChainIds),
            value(status.is_some(), StateValue::State),
            value(changed.is_some(), StateValue::Changed),
            value(unconfirmed.is_some(), StateValue::UnconfirmedSince),
            value(sources.is_some(), StateValue::Sources),
            value(family_names.is_some(), StateValue::Families),
            value(scraped.is_some(), StateValue::Scraped),
            value(*more, StateValue::Any),
        ]
        .into_iter()
        .flatten()
        .collect();
        values.extend(chains.iter().map(|(id, _)| StateValue::Chain(id.clone())));
        values.extend(families.iter().map(|(name, _)| StateValue::Family(Arc::clone(name))));
        values
    }
}
