//! The contract's host functions: without WASI, a module sees only their results and its
//! request.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, Lift, Linker, Lower};

use super::contract::interface;
use super::store::StoreData;
use super::wire;

/// Defines the functions of the contract, in its order.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    function(linker, "version", "components", |call, ()| (call.snapshot.lowered_components(),))?;
    function(linker, "chains", "ids", |call, ()| (call.snapshot.lowered_chain_ids(),))?;
    function(linker, "chains", "config", |call, (id,): (String,)| {
        (call.snapshot.lowered_chain(&id),)
    })?;
    function(linker, "state", "current", |call, ()| (call.snapshot.lowered_state(),))?;
    function(linker, "snapshot", "changed", |call, ()| (call.snapshot.lowered_changed(),))?;
    function(linker, "snapshot", "unconfirmed-since", |call, ()| {
        (call.snapshot.lowered_unconfirmed_since(),)
    })?;
    function(linker, "snapshot", "sources", |call, ()| (call.snapshot.lowered_sources(),))?;
    function(linker, "telemetry", "families", |call, ()| {
        (call.snapshot.lowered_metric_families(),)
    })?;
    function(linker, "telemetry", "family", |call, (name,): (String,)| {
        (call.snapshot.lowered_metric_family(&name),)
    })?;
    function(linker, "telemetry", "scraped", |call, ()| (call.snapshot.lowered_scraped(),))?;
    function(linker, "commands", "clear-packets", |call, (chain,): (Option<String>,)| {
        call.clear_packets(chain);
    })?;
    function(linker, "request", "header", |call, (name,): (String,)| (call.header(&name),))?;
    function(linker, "query", "get", |call, ()| (call.query(),))?;
    function(linker, "mount", "path", |call, ()| (call.mount(),))?;
    function(linker, "log", "log", |call, (level, message): (wire::Level, String)| {
        call.log(level, &message);
    })?;
    function(linker, "failure", "report", |call, (cause,): (String,)| call.report_failure(&cause))
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
