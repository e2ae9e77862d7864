//! Defines the functions of WASI for a store.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::{self, DynPollable, Pollable, subscribe};
use wasmtime_wasi::{WasiCtxView, WasiView, async_trait};

use crate::store::StoreData;
use crate::wasi_http;

/// The interface, by the name that the library defines it under.
const MONOTONIC_CLOCK: &str = "wasi:clocks/monotonic-clock@0.2.12";

/// A pollable that is always ready.
struct Ready;

impl WasiView for StoreData {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi.as_mut().expect("only where it has WASI is it linked");
        WasiCtxView { ctx: &mut wasi.context, table: &mut wasi.table }
    }
}

/// Defines the functions of WASI.
pub(crate) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    p2::add_to_linker_async(linker)?;
    // The library's own functions wait for as long as the module requests.
    linker.allow_shadowing(true);
    let mut root = linker.root();
    let mut clock = root.instance(MONOTONIC_CLOCK)?;
    for name in ["subscribe-instant", "subscribe-duration"] {
        clock.func_wrap(name, |mut store: StoreContextMut<'_, StoreData>, (_,): (u64,)| {
            Ok((at_once(store.data_mut().ctx().table)?,))
        })?;
    }
    linker.allow_shadowing(false);
    wasi_http::define(linker, StoreData::http)
}

/// Returns a pollable that is ready at once.
fn at_once(table: &mut ResourceTable) -> wasmtime::Result<Resource<DynPollable>> {
    let ready = table.push(Ready)?;
    subscribe(table, ready)
}

#[async_trait]
impl Pollable for Ready {
    async fn ready(&mut self) {}
}
