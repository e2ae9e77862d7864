//! The handlers that components export: the contract's, and the one of `wasi:http`.

use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower, Resource,
    TypedFunc,
};

use super::contract::HANDLER;
use super::request::GuestRequest;
use super::store::StoreData;
use super::wasi_http::{IncomingRequest, ResponseOutparam};
use super::wire;

/// The parameters and results of the contract's handler.
type Params<'a> = (wire::Request<'a>,);
type Results = (wire::Response,);

/// The parameters of the handler of `wasi:http`, which has no results.
type HttpParams = (Resource<IncomingRequest>, Resource<ResponseOutparam>);

/// The full name of the interface of a handler that a component exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandlerName {
    Contract(String),
    WasiHttp(String),
}

/// The handler that a component exports, whose types were checked.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    Contract(ComponentExportIndex),
    WasiHttp(ComponentExportIndex),
}

/// The handler of an instance.
pub(super) enum Handle<'a> {
    Contract(TypedFunc<Params<'a>, Results>),
    WasiHttp(TypedFunc<HttpParams, ()>),
}

impl Handler {
    /// Finds the handler and checks its types.
    pub(super) fn find(pre: &InstancePre<StoreData>, name: &HandlerName) -> wasmtime::Result<Self> {
        match name {
            HandlerName::Contract(name) => {
                function::<Params<'_>, Results>(pre, name).map(Self::Contract)
            }
            HandlerName::WasiHttp(name) => {
                function::<HttpParams, ()>(pre, name).map(Self::WasiHttp)
            }
        }
    }

    /// Returns the handler of an instance.
    pub(super) fn of_instance<'a>(
        self,
        instance: &Instance,
        store: &mut Store<StoreData>,
    ) -> wasmtime::Result<Handle<'a>> {
        Ok(match self {
            Self::Contract(index) => Handle::Contract(instance.get_typed_func(store, index)?),
            Self::WasiHttp(index) => Handle::WasiHttp(instance.get_typed_func(store, index)?),
        })
    }

    /// Returns whether modules with this handler can read the body of a request.
    pub(super) fn reads_bodies(self) -> bool {
        match self {
            Self::Contract(_) => false,
            Self::WasiHttp(_) => true,
        }
    }
}

impl<'a> Handle<'a> {
    /// Calls the handler with a request, and returns the unchecked response or the engine's
    /// error.
    pub(super) async fn call(
        &self,
        store: &mut Store<StoreData>,
        request: &'a GuestRequest,
    ) -> wasmtime::Result<wire::Response> {
        match self {
            Self::Contract(function) => {
                let path = request.target.path();
                let request = wire::Request { method: request.method.as_str(), path };
                function.call_async(store, (request,)).await.map(|(response,)| response)
            }
            Self::WasiHttp(function) => {
                let params = store.data_mut().http().begin()?;
                function.call_async(&mut *store, params).await?;
                Ok(store.data_mut().http().end()?)
            }
        }
    }
}

/// Finds the function of a handler's interface, and checks its types.
fn function<Params, Results>(
    pre: &InstancePre<StoreData>,
    interface: &str,
) -> wasmtime::Result<ComponentExportIndex>
where
    Params: ComponentNamedList + Lower,
    Results: ComponentNamedList + Lift,
{
    let component = pre.component();
    let missing = || wasmtime::format_err!("{interface} has no function {}", HANDLER.1);
    let (_, instance) = component.get_export(None, interface).ok_or_else(missing)?;
    match component.get_export(Some(&instance), HANDLER.1).ok_or_else(missing)? {
        (ComponentItem::ComponentFunc(function), index) => {
            function.typecheck::<Params, Results>(&pre.instance_type())?;
            Ok(index)
        }
        _ => Err(missing()),
    }
}
