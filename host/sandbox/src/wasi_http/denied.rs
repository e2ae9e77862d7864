//! Requests to other servers: a component can make them, but none is sent.

use http::uri::{self, PathAndQuery};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynPollable;

use super::Http;
use super::bindings::outgoing_handler;
use super::bindings::types::{self, Duration, ErrorCode, IoError, Method, Scheme};
use super::body::OutgoingBody;
use super::method;
use super::resources::{
    Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, OutgoingRequest, RequestOptions,
};

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

impl types::HostOutgoingRequest for Http<'_> {
    fn new(&mut self, headers: Resource<Fields>) -> wasmtime::Result<Resource<OutgoingRequest>> {
        let headers = self.take_fields(headers)?;
        Ok(self.table.push(OutgoingRequest {
            method: http::Method::GET,
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
        Ok(method::to_wit(&self.table.get(&request)?.method))
    }

    fn set_method(
        &mut self,
        request: Resource<OutgoingRequest>,
        method: Method,
    ) -> wasmtime::Result<Result<(), ()>> {
        let Some(method) = method::from_wit(&method) else { return Ok(Err(())) };
        self.limiter.charge(method.as_str().len())?;
        self.table.get_mut(&request)?.method = method;
        Ok(Ok(()))
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
        let is_valid = |text: &String| text.parse::<PathAndQuery>().is_ok();
        if !path.as_ref().is_none_or(is_valid) {
            return Ok(Err(()));
        }
        self.limiter.charge(path.as_ref().map_or(0, String::len))?;
        self.table.get_mut(&request)?.path_with_query = path;
        Ok(Ok(()))
    }

    fn scheme(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Option<Scheme>> {
        let scheme = self.table.get(&request)?.scheme.as_ref();
        Ok(scheme.map(|scheme| match scheme.as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => Scheme::Other(other.to_owned()),
        }))
    }

    fn set_scheme(
        &mut self,
        request: Resource<OutgoingRequest>,
        scheme: Option<Scheme>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let scheme = match scheme {
            None => None,
            Some(Scheme::Http) => Some(uri::Scheme::HTTP),
            Some(Scheme::Https) => Some(uri::Scheme::HTTPS),
            Some(Scheme::Other(text)) => match text.parse() {
                Ok(scheme) => Some(scheme),
                Err(_) => return Ok(Err(())),
            },
        };
        self.limiter.charge(scheme.as_ref().map_or(0, |scheme| scheme.as_str().len()))?;
        self.table.get_mut(&request)?.scheme = scheme;
        Ok(Ok(()))
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
        let is_valid = |text: &String| text.parse::<uri::Authority>().is_ok();
        if !authority.as_ref().is_none_or(is_valid) {
            return Ok(Err(()));
        }
        self.limiter.charge(authority.as_ref().map_or(0, String::len))?;
        self.table.get_mut(&request)?.authority = authority;
        Ok(Ok(()))
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
