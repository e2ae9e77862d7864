//! What the host shows and takes.

use crate::bindings::relayer::rest::{
    chains, log, mount, query, request, snapshot, state, version,
};
use crate::contract::{ChainConfig, Component, NotReady, RelayerState};

pub use crate::bindings::relayer::rest::log::Level;

/// What a module can call: the contract's imports. All reads of one request see
/// the relayer at one moment.
///
/// Only what is called of it is imported, so take it as `H: Host` and not as
/// `dyn Host`, which needs all there is.
pub trait Host {
    /// The parts of the relayer and their versions, `ibc-relayer` first. Of the
    /// interface `version`.
    fn components(&self) -> Vec<Component>;
    /// The identifiers of the configured chains, in the order of the
    /// configuration. Of the interface `chains`.
    fn chain_ids(&self) -> Result<Vec<String>, NotReady>;
    /// The configuration of a chain, or none where there is no such chain. Of
    /// the interface `chains`.
    fn chain(&self, id: &str) -> Result<Option<ChainConfig>, NotReady>;
    /// The connected chains and the active workers; [`crate::State`] has their
    /// names in place. Of the interface `state`.
    fn state(&self) -> Result<RelayerState, NotReady>;
    /// When anything that the ones above tell last changed, in nanoseconds since
    /// 1970-01-01T00:00:00Z. Of the interface `snapshot`.
    fn changed(&self) -> u64;
    /// Since when the relayer has not confirmed what is shown, where it should
    /// have, in the same unit. Of the interface `snapshot`.
    fn unconfirmed_since(&self) -> Option<u64>;
    /// The values of the request's header of this name, whose case does not
    /// matter; empty where there is none. Of the interface `request`.
    fn header(&self, name: &str) -> Vec<Vec<u8>>;
    /// Returns what follows the `?` in the request's target, as the client sent it,
    /// or none if the target has no `?`; [`crate::Query`] has its parameters. The
    /// answer is then cached for this query only. Of the interface `query`.
    fn query(&self) -> Option<String>;
    /// Where the module is mounted: `/`, or a path such as `/ext/metrics`. Of
    /// the interface `mount`.
    fn mount(&self) -> String;
    /// Writes a line to the host's log. Of the interface `log`.
    fn log(&self, level: Level, message: &str);
}

/// The host that runs the module.
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

    fn header(&self, name: &str) -> Vec<Vec<u8>> {
        request::header(name)
    }

    fn query(&self) -> Option<String> {
        query::get()
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

    fn header(&self, name: &str) -> Vec<Vec<u8>> {
        (**self).header(name)
    }

    fn query(&self) -> Option<String> {
        (**self).query()
    }

    fn mount(&self) -> String {
        (**self).mount()
    }

    fn log(&self, level: Level, message: &str) {
        (**self).log(level, message);
    }
}
