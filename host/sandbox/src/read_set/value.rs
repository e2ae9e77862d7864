//! The reads of a response as a list, which explains on which values it depends.

use std::time::SystemTime;

use relayer_rest_common::text::for_log;
use relayer_rest_state::{Generation, ListedChain, Snapshot, Versioned};
use serde::{Deserialize, Serialize};

use super::{QueryRead, ReadSet, Scraped};

/// A value that a module read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadValue {
    /// The function of the contract, such as `chains.config`.
    pub function: String,
    /// Its argument, such as the identifier of a chain.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub argument: Option<String>,
    /// The generation of the state at which the value last changed; none if it does not exist,
    /// or does not belong to the state.
    pub generation: Option<u64>,
    /// The value, if it belongs to the request or is a time, and exists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    /// Whether the same read returns the same value now.
    pub is_current: bool,
}

impl ReadSet {
    /// Returns the recorded reads, compared with a snapshot from the same publisher.
    #[must_use]
    pub fn values(&self, snapshot: &Snapshot) -> Vec<ReadValue> {
        let telemetry = snapshot.telemetry();
        let mut list = List::default();
        list.generation("version.components", self.components, snapshot.components().generation());
        list.generation("chains.ids", self.chain_ids, snapshot.chain_ids().generation());
        for (id, read) in &self.chains {
            let now = snapshot.chain(id.as_str()).map(ListedChain::generation);
            let is_known = snapshot.chain_ids().value().is_ok();
            list.named("chains.config", id.as_str(), *read, is_known && *read == now);
        }
        list.generation("state.current", self.status, snapshot.status().generation());
        list.generation("snapshot.changed", self.changed, snapshot.changed().generation);
        if let Some(read) = self.unconfirmed {
            let is_current = read.since == snapshot.unconfirmed_since();
            list.time("snapshot.unconfirmed-since", read.since, is_current);
        }
        list.generation("snapshot.sources", self.sources, snapshot.sources().generation());
        list.generation("telemetry.families", self.family_names, telemetry.names().generation());
        for (name, read) in &self.families {
            let now = telemetry.family(name).map(Versioned::generation);
            let is_known = telemetry.names().value().is_ok();
            list.named("telemetry.family", name, *read, is_known && *read == now);
        }
        if let Some(Scraped(read)) = self.scraped {
            list.time("telemetry.scraped", read, read == telemetry.scraped());
        }
        if self.all_headers {
            list.of_request("request.header", Some("*"), Some("all that are below".to_owned()));
        }
        for (name, values) in &self.headers {
            let values: Vec<_> = values.iter().map(|value| text(value.as_bytes())).collect();
            let value = if values.is_empty() { None } else { Some(values.join(", ")) };
            list.of_request("request.header", Some(name.as_str()), value);
        }
        if let Some(QueryRead(query)) = &self.query {
            list.of_request("query.get", None, query.as_deref().map(for_log));
        }
        list.0
    }
}

/// The values so far.
#[derive(Default)]
struct List(Vec<ReadValue>);

impl List {
    /// Adds a part of the state, if it was read.
    fn generation(&mut self, function: &str, read: Option<Generation>, now: Generation) {
        if let Some(read) = read {
            self.add(ReadValue { is_current: read == now, ..value(function, Some(read)) });
        }
    }

    /// Adds one of the values that a function returns by name.
    fn named(&mut self, function: &str, name: &str, read: Option<Generation>, is_current: bool) {
        let argument = Some(for_log(name));
        self.add(ReadValue { argument, is_current, ..value(function, read) });
    }

    /// Adds a time, which has no generation.
    fn time(&mut self, function: &str, read: Option<SystemTime>, is_current: bool) {
        let time = read.map(|time| humantime::format_rfc3339_seconds(time).to_string());
        self.add(ReadValue { value: time, is_current, ..value(function, None) });
    }

    /// Adds a part of the request.
    fn of_request(&mut self, function: &str, argument: Option<&str>, text: Option<String>) {
        let argument = argument.map(for_log);
        self.add(ReadValue { argument, value: text, ..value(function, None) });
    }

    fn add(&mut self, value: ReadValue) {
        self.0.push(value);
    }
}

fn value(function: &str, read: Option<Generation>) -> ReadValue {
    ReadValue {
        function: function.to_owned(),
        argument: None,
        generation: read.map(Generation::number),
        value: None,
        is_current: true,
    }
}

fn text(bytes: &[u8]) -> String {
    for_log(&String::from_utf8_lossy(bytes))
}
