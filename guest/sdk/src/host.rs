//! The host's interfaces, as a trait.

use crate::bindings::relayer::rest::{
    chains, commands, log, mount, snapshot, state, telemetry, version,
};
use crate::contract::{ChainConfig, Component, MetricFamily, NotReady, RelayerState, Source};

pub use crate::bindings::relayer::rest::log::Level;

/// The functions that a module can call: the imports of the contract, except those of the
/// request, which [`crate::Request`] has. All reads of one request see the same snapshot of
/// the relayer.
///
/// A component imports the interfaces whose functions it calls. Take the host as
/// `H: Host`: with `dyn Host` a component imports all interfaces.
pub trait Host {
    /// Returns the parts of the relayer and their versions, `ibc-relayer` first. Imports
    /// `version`.
    fn components(&self) -> Vec<Component>;
    /// Returns the identifiers of the configured chains, in the order of the
    /// configuration. Imports `chains`.
    ///
    /// # Errors
    /// Returns an error until the chains are first known.
    fn chain_ids(&self) -> Result<Vec<String>, NotReady>;
    /// Returns the configuration of a chain, or `None` if there is no such chain. Imports
    /// `chains`.
    ///
    /// # Errors
    /// Returns an error until the chains are first known.
    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady>;
    /// Returns the connected chains and the active workers; [`crate::State`] resolves
    /// their names. Imports `state`.
    ///
    /// # Errors
    /// Returns an error until the state is first known, and when it is too old.
    fn state(&self) -> Result<RelayerState, NotReady>;
    /// Returns the time of the last change of the parts, the chains or the state, in
    /// nanoseconds since 1970-01-01T00:00:00Z. Imports `snapshot`.
    fn changed(&self) -> u64;
    /// Returns the time since which the relayer has not confirmed its state, in
    /// nanoseconds since 1970-01-01T00:00:00Z; `None` if it has, or if the source of the
    /// state needs no confirmation. Imports `snapshot`.
    fn unconfirmed_since(&self) -> Option<u64>;
    /// Returns the sources of the data; none if the program that runs the module publishes
    /// the data by itself. Imports `snapshot`.
    fn sources(&self) -> Vec<Source>;
    /// Returns the names of the families of metrics that the relayer exports, sorted.
    /// Imports `telemetry`.
    ///
    /// # Errors
    /// Returns an error if the telemetry is not read, until it is first known, and when it
    /// is too old.
    fn metric_families(&self) -> Result<Vec<String>, NotReady>;
    /// Returns a family of metrics, or `None` if the relayer does not export it. The
    /// response then depends on this family only. Imports `telemetry`.
    ///
    /// # Errors
    /// As [`Self::metric_families`].
    fn metric_family(&self, name: &str) -> Result<Option<MetricFamily>, NotReady>;
    /// Returns the time at which the telemetry was read from the relayer, in nanoseconds
    /// since 1970-01-01T00:00:00Z. It changes every few seconds, and the response with it.
    /// Imports `telemetry`.
    ///
    /// # Errors
    /// As [`Self::metric_families`].
    fn scraped(&self) -> Result<u64, NotReady>;
    /// Records the command to clear the pending packets of a chain, or of all chains with
    /// `None`. The host executes it if the response has a status from 200 to 299, the
    /// settings allow it, and the client is authorised. Imports `commands`.
    fn clear_packets(&self, chain: Option<&str>);
    /// Returns the path at which the module is mounted: `/`, or a path such as
    /// `/ext/metrics`. Imports `mount`.
    fn mount(&self) -> String;
    /// Writes a line to the host's log, which clients do not see. Imports `log`.
    fn log(&self, level: Level, message: &str);
}

/// The host that runs the component, called through its imports.
#[derive(Debug, Clone, Copy)]
pub struct WitHost;

impl Host for WitHost {
    fn components(&self) -> Vec<Component> {
        version::components()
    }

    fn chain_ids(&self) -> Result<Vec<String>, NotReady> {
        chains::ids()
    }

    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady> {
        chains::config(id)
    }

    fn state(&self) -> Result<RelayerState, NotReady> {
        state::current()
    }

    fn changed(&self) -> u64 {
        snapshot::changed()
    }

    fn unconfirmed_since(&self) -> Option<u64> {
        snapshot::unconfirmed_since()
    }

    fn sources(&self) -> Vec<Source> {
        snapshot::sources()
    }

    fn metric_families(&self) -> Result<Vec<String>, NotReady> {
        telemetry::families()
    }

    fn metric_family(&self, name: &str) -> Result<Option<MetricFamily>, NotReady> {
        telemetry::family(name)
    }

    fn scraped(&self) -> Result<u64, NotReady> {
        telemetry::scraped()
    }

    fn clear_packets(&self, chain: Option<&str>) {
        commands::clear_packets(chain);
    }

    fn mount(&self) -> String {
        mount::path()
    }

    fn log(&self, level: Level, message: &str) {
        log::log(level, message);
    }
}

impl<H: Host + ?Sized> Host for &H {
    fn components(&self) -> Vec<Component> {
        (**self).components()
    }

    fn chain_ids(&self) -> Result<Vec<String>, NotReady> {
        (**self).chain_ids()
    }

    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady> {
        (**self).chain(id)
    }

    fn state(&self) -> Result<RelayerState, NotReady> {
        (**self).state()
    }

    fn changed(&self) -> u64 {
        (**self).changed()
    }

    fn unconfirmed_since(&self) -> Option<u64> {
        (**self).unconfirmed_since()
    }

    fn sources(&self) -> Vec<Source> {
        (**self).sources()
    }

    fn metric_families(&self) -> Result<Vec<String>, NotReady> {
        (**self).metric_families()
    }

    fn metric_family(&self, name: &str) -> Result<Option<MetricFamily>, NotReady> {
        (**self).metric_family(name)
    }

    fn scraped(&self) -> Result<u64, NotReady> {
        (**self).scraped()
    }

    fn clear_packets(&self, chain: Option<&str>) {
        (**self).clear_packets(chain);
    }

    fn mount(&self) -> String {
        (**self).mount()
    }

    fn log(&self, level: Level, message: &str) {
        (**self).log(level, message);
    }
}
