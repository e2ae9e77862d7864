//! The contract's host functions: without WASI, a module sees only their results and its
//! request.

use std::sync::{Arc, PoisonError};

use http::HeaderName;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, Lift, Linker, Lower};

use super::contract::interface;
use super::instance::StoreData;
use super::wire;

/// Defines the functions of the contract, in its order.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    function(linker, "version", "components", |call, ()| (call.components(),))?;
    function(linker, "chains", "ids", |call, ()| (call.chain_ids(),))?;
    function(linker, "chains", "config", |call, (id,): (String,)| (call.chain(&id),))?;
    function(linker, "state", "current", |call, ()| (call.state(),))?;
    function(linker, "snapshot", "changed", |call, ()| (call.changed(),))?;
    function(linker, "snapshot", "unconfirmed-since", |call, ()| (call.unconfirmed_since(),))?;
    function(linker, "request", "header", |call, (name,): (String,)| (call.header(&name),))?;
    function(linker, "query", "get", |call, ()| (call.query(),))?;
    function(linker, "mount", "path", |call, ()| (call.mount(),))?;
    function(linker, "log", "log", |call, (level, message): (wire::Level, String)| {
        call.log(level, &message);
    })
}

impl StoreData {
    fn components(&mut self) -> Arc<Vec<wire::Component>> {
        self.view.components().lowered(|components| wire::components(components))
    }

    fn chain_ids(&mut self) -> Arc<wire::Known<Vec<Arc<str>>>> {
        self.view.chain_ids().lowered(|ids| wire::known(ids, |ids| wire::chain_ids(ids)))
    }

    fn chain(&mut self, id: &str) -> wire::Known<Option<Arc<wire::ChainConfig>>> {
        let chain = self.view.chain(id);
        wire::known(&chain, |chain| {
            chain.map(|chain| chain.lowered(|chain| wire::ChainConfig::from(chain)))
        })
    }

    fn state(&mut self) -> Arc<wire::Known<wire::RelayerState>> {
        self.view.status().lowered(|status| wire::known(status, wire::relayer_state))
    }

    fn changed(&mut self) -> u64 {
        wire::timestamp(self.view.changed())
    }

    fn unconfirmed_since(&mut self) -> Option<u64> {
        self.view.unconfirmed_since().map(wire::timestamp)
    }

    fn header(&mut self, name: &str) -> Vec<Vec<u8>> {
        // No header has an invalid name.
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { return Vec::new() };
        self.view.header(&name).iter().map(|value| value.as_bytes().to_vec()).collect()
    }

    fn query(&mut self) -> Option<String> {
        self.view.query().map(str::to_owned)
    }

    /// Returns the path of the mount. All cached responses of a mount share it, so this
    /// read is not recorded.
    fn mount(&mut self) -> Arc<str> {
        self.module.mount()
    }

    fn log(&mut self, level: wire::Level, message: &str) {
        let _span = self.span.enter();
        match &self.wasi {
            // Output to stdout and stderr counts as well.
            Some(wasi) => {
                let mut log = wasi.log().lock().unwrap_or_else(PoisonError::into_inner);
                log.write(&self.module, level, message);
            }
            None => self.log.write(&self.module, level, message),
        }
    }
}

/// Defines a function of an interface of the contract.
fn function<Params, Results>(
    linker: &mut Linker<StoreData>,
    name: &str,
    function: &str,
    body: impl Fn(&mut StoreData, Params) -> Results + Send + Sync + 'static,
) -> wasmtime::Result<()>
where
    Params: ComponentNamedList + Lift + 'static,
    Results: ComponentNamedList + Lower + 'static,
{
    // Interfaces have more than one function: each is added to its interface.
    let mut root = linker.root();
    let mut instance = root.instance(&interface(name))?;
    instance.func_wrap(function, move |mut store: StoreContextMut<'_, StoreData>, params| {
        Ok(body(store.data_mut(), params))
    })
}
