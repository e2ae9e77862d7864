//! The request, and its body.

use http::header::HOST;
use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{DynInputStream, DynPollable, Pollable, subscribe};

use super::Http;
use super::bindings::types::{self, ErrorCode, Method, Scheme};
use super::method;
use super::resources::{Fields, FutureTrailers, IncomingBody, IncomingRequest};

/// The authority of a request without a `Host`, such as one that the host makes as a check.
const LOCALHOST: &str = "localhost";

#[async_trait]
impl Pollable for FutureTrailers {
    async fn ready(&mut self) {}
}

impl types::HostIncomingRequest for Http<'_> {
    fn method(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Method> {
        Ok(method::to_wit(self.snapshot.method()))
    }

    fn path_with_query(
        &mut self,
        _: Resource<IncomingRequest>,
    ) -> wasmtime::Result<Option<String>> {
        Ok(Some(self.snapshot.path_with_query().to_owned()))
    }

    fn scheme(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Option<Scheme>> {
        Ok(Some(Scheme::Http))
    }

    fn authority(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Option<String>> {
        let hosts = self.snapshot.header(&HOST);
        let host = hosts.first().and_then(|host| host.to_str().ok());
        Ok(Some(host.filter(|host| !host.is_empty()).unwrap_or(LOCALHOST).to_owned()))
    }

    fn headers(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Resource<Fields>> {
        Ok(self.table.push(Fields::Request)?)
    }

    fn consume(
        &mut self,
        request: Resource<IncomingRequest>,
    ) -> wasmtime::Result<Result<Resource<IncomingBody>, ()>> {
        let request = self.table.get_mut(&request)?;
        if std::mem::replace(&mut request.is_consumed, true) {
            return Ok(Err(()));
        }
        Ok(Ok(self.table.push(IncomingBody::default())?))
    }

    fn drop(&mut self, request: Resource<IncomingRequest>) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

impl types::HostIncomingBody for Http<'_> {
    fn stream(
        &mut self,
        body: Resource<IncomingBody>,
    ) -> wasmtime::Result<Result<Resource<DynInputStream>, ()>> {
        if std::mem::replace(&mut self.table.get_mut(&body)?.is_streamed, true) {
            return Ok(Err(()));
        }
        let stream: DynInputStream = Box::new(MemoryInputPipe::new(self.snapshot.body()));
        Ok(Ok(self.table.push_child(stream, &body)?))
    }

    fn finish(
        &mut self,
        body: Resource<IncomingBody>,
    ) -> wasmtime::Result<Resource<FutureTrailers>> {
        self.table.delete(body)?;
        Ok(self.table.push(FutureTrailers::default())?)
    }

    fn drop(&mut self, body: Resource<IncomingBody>) -> wasmtime::Result<()> {
        self.table.delete(body)?;
        Ok(())
    }
}

impl types::HostFutureTrailers for Http<'_> {
    fn subscribe(
        &mut self,
        trailers: Resource<FutureTrailers>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.table, trailers)
    }

    fn get(
        &mut self,
        trailers: Resource<FutureTrailers>,
    ) -> wasmtime::Result<Option<Result<Result<Option<Resource<Fields>>, ErrorCode>, ()>>> {
        let trailers = self.table.get_mut(&trailers)?;
        let is_taken = std::mem::replace(&mut trailers.is_taken, true);
        Ok(Some(if is_taken { Err(()) } else { Ok(Ok(None)) }))
    }

    fn drop(&mut self, trailers: Resource<FutureTrailers>) -> wasmtime::Result<()> {
        self.table.delete(trailers)?;
        Ok(())
    }
}
