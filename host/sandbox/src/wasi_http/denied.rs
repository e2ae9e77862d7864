//! Requests to other servers: a component can make them, but none is sent.

use http::HeaderMap;
use http::uri::{self, PathAndQuery};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynPollable;

use super::Http;
use super::bindings::outgoing_handler;
use super::bindings::types::{self, Duration, ErrorCode, IoError, Method, Scheme};
use super::body::OutgoingBody;
use super::fields::Fields;
use super::incoming::IncomingBody;

/// A request to another server.
pub struct OutgoingRequest {
    method: Method,
    path_with_query: Option<String>,
    scheme: Option<Scheme>,
    authority: Option<String>,
    headers: HeaderMap,
    has_body: bool,
}

/// The time limits of such a request.
#[derive(Default)]
pub struct RequestOptions {
    connect: Option<Duration>,
    first_byte: Option<Duration>,
    between_bytes: Option<Duration>,
}

/// A response that a component waits for. There is none.
pub enum FutureIncomingResponse {}

/// A response of another server. There is none.
pub enum IncomingResponse {}

impl outgoing_handler::Host for Http<'_> {
    fn handle(
        &mut self,
        request: Resource<OutgoingRequest>,
        options: Option<Resource<RequestOptions>>,
    ) -> wasmtime::Result<Result<Resource<FutureIncomingResponse>, ErrorCode>> {
        self.table.delete(request)?;
        if let Some(options) = options {
            self.table.delete(options)?;
        }
        Ok(Err(ErrorCode::HttpRequestDenied))
    }
}

impl types::Host for Http<'_> {
    fn http_error_code(&mut self, _: Resource<IoError>) -> wasmtime::Result<Option<ErrorCode>> {
        // The streams of bodies fail with a trap only.
        Ok(None)
    }
}

impl Http<'_> {
    /// Sets a part of a request if its text is valid. The memory counts for the instance.
    fn set_part(
        &mut self,
        request: &Resource<OutgoingRequest>,
        text: Option<&str>,
        is_valid: impl FnOnce(&str) -> bool,
        set: impl FnOnce(&mut OutgoingRequest),
    ) -> wasmtime::Result<Result<(), ()>> {
        if text.is_some_and(|text| !is_valid(text)) {
            return Ok(Err(()));
        }
        self.limiter.charge(text.map_or(0, str::len))?;
        set(self.table.get_mut(request)?);
        Ok(Ok(()))
    }
}

impl types::HostOutgoingRequest for Http<'_> {
    fn new(&mut self, headers: Resource<Fields>) -> wasmtime::Result<Resource<OutgoingRequest>> {
        let headers = self.take_fields(headers)?;
        Ok(self.table.push(OutgoingRequest {
            method: Method::Get,
            path_with_query: None,
            scheme: None,
            authority: None,
            headers,
            has_body: false,
        })?)
    }

    fn body(
        &mut self,
        request: Resource<OutgoingRequest>,
    ) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        let request = self.table.get_mut(&request)?;
        if std::mem::replace(&mut request.has_body, true) {
            return Ok(Err(()));
        }
        Ok(Ok(self.table.push(OutgoingBody::of_request())?))
    }

    fn method(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Method> {
        Ok(self.table.get(&request)?.method.clone())
    }

    fn set_method(
        &mut self,
        request: Resource<OutgoingRequest>,
        method: Method,
    ) -> wasmtime::Result<Result<(), ()>> {
        let text = match &method {
            Method::Other(text) => Some(text.clone()),
            _ => None,
        };
        let is_valid = |text: &str| text.parse::<http::Method>().is_ok();
        self.set_part(&request, text.as_deref(), is_valid, |request| request.method = method)
    }

    fn path_with_query(
        &mut self,
        request: Resource<OutgoingRequest>,
    ) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&request)?.path_with_query.clone())
    }

    fn set_path_with_query(
        &mut self,
        request: Resource<OutgoingRequest>,
        path: Option<String>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let is_valid = |text: &str| text.parse::<PathAndQuery>().is_ok();
        let text = path.clone();
        self.set_part(&request, text.as_deref(), is_valid, |request| {
            request.path_with_query = path;
        })
    }

    fn scheme(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Option<Scheme>> {
        Ok(self.table.get(&request)?.scheme.clone())
    }

    fn set_scheme(
        &mut self,
        request: Resource<OutgoingRequest>,
        scheme: Option<Scheme>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let text = match &scheme {
            Some(Scheme::Other(text)) => Some(text.clone()),
            _ => None,
        };
        let is_valid = |text: &str| text.parse::<uri::Scheme>().is_ok();
        self.set_part(&request, text.as_deref(), is_valid, |request| request.scheme = scheme)
    }

    fn authority(
        &mut self,
        request: Resource<OutgoingRequest>,
    ) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&request)?.authority.clone())
    }

    fn set_authority(
        &mut self,
        request: Resource<OutgoingRequest>,
        authority: Option<String>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let is_valid = |text: &str| text.parse::<uri::Authority>().is_ok();
        let text = authority.clone();
        self.set_part(&request, text.as_deref(), is_valid, |request| {
            request.authority = authority;
        })
    }

    fn headers(
        &mut self,
        request: Resource<OutgoingRequest>,
    ) -> wasmtime::Result<Resource<Fields>> {
        self.show(|http| Ok(&http.table.get(&request)?.headers))
    }

    fn drop(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

impl types::HostRequestOptions for Http<'_> {
    fn new(&mut self) -> wasmtime::Result<Resource<RequestOptions>> {
        Ok(self.table.push(RequestOptions::default())?)
    }

    fn connect_timeout(
        &mut self,
        options: Resource<RequestOptions>,
    ) -> wasmtime::Result<Option<Duration>> {
        Ok(self.table.get(&options)?.connect)
    }

    fn set_connect_timeout(
        &mut self,
        options: Resource<RequestOptions>,
        time: Option<Duration>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.table.get_mut(&options)?.connect = time;
        Ok(Ok(()))
    }

    fn first_byte_timeout(
        &mut self,
        options: Resource<RequestOptions>,
    ) -> wasmtime::Result<Option<Duration>> {
        Ok(self.table.get(&options)?.first_byte)
    }

    fn set_first_byte_timeout(
        &mut self,
        options: Resource<RequestOptions>,
        time: Option<Duration>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.table.get_mut(&options)?.first_byte = time;
        Ok(Ok(()))
    }

    fn between_bytes_timeout(
        &mut self,
        options: Resource<RequestOptions>,
    ) -> wasmtime::Result<Option<Duration>> {
        Ok(self.table.get(&options)?.between_bytes)
    }

    fn set_between_bytes_timeout(
        &mut self,
        options: Resource<RequestOptions>,
        time: Option<Duration>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.table.get_mut(&options)?.between_bytes = time;
        Ok(Ok(()))
    }

    fn drop(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<()> {
        self.table.delete(options)?;
        Ok(())
    }
}

impl types::HostFutureIncomingResponse for Http<'_> {
    fn subscribe(
        &mut self,
        response: Resource<FutureIncomingResponse>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        match *self.table.get(&response)? {}
    }

    fn get(
        &mut self,
        response: Resource<FutureIncomingResponse>,
    ) -> wasmtime::Result<Option<Result<Result<Resource<IncomingResponse>, ErrorCode>, ()>>> {
        match *self.table.get(&response)? {}
    }

    fn drop(&mut self, response: Resource<FutureIncomingResponse>) -> wasmtime::Result<()> {
        match self.table.delete(response)? {}
    }
}

impl types::HostIncomingResponse for Http<'_> {
    fn status(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<u16> {
        match *self.table.get(&response)? {}
    }

    fn headers(
        &mut self,
        response: Resource<IncomingResponse>,
    ) -> wasmtime::Result<Resource<Fields>> {
        match *self.table.get(&response)? {}
    }

    fn consume(
        &mut self,
        response: Resource<IncomingResponse>,
    ) -> wasmtime::Result<Result<Resource<IncomingBody>, ()>> {
        match *self.table.get(&response)? {}
    }

    fn drop(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<()> {
        match self.table.delete(response)? {}
    }
}
