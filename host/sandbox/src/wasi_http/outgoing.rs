//! The response that a component makes.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use relayer_rest_common::text::{escape_control, truncate};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynOutputStream;

use super::bindings::types::{self, ErrorCode};
use super::body::{OutgoingBody, check_length};
use super::resources::{Fields, OutgoingResponse, ResponseOutparam};
use super::{Http, Outcome};
use crate::header_grants::is_of_the_host;
use crate::response::InvalidResponse;
use crate::wire;

/// Converts the response that a component has set, after the component has ended.
///
/// The host sets the headers of the connection and the length itself, and checks the length
/// that the component has announced.
pub(super) fn response(outcome: Option<Outcome>) -> Result<wire::Response, InvalidResponse> {
    let OutgoingResponse { status, headers, body } = match outcome {
        Some(Ok(response)) => response,
        Some(Err(code)) => return Err(InvalidResponse::ErrorCode(code)),
        None => return Err(InvalidResponse::NotSet),
    };
    let body = if let Some(body) = body {
        body.into_bytes()?
    } else {
        check_length(announced(&headers)?, 0)?;
        Bytes::new()
    };
    let headers = headers.iter().filter(|(name, _)| !is_of_the_host(name));
    let headers = headers.map(|(name, value)| wire::Header {
        name: name.as_str().to_owned(),
        value: value.as_bytes().to_vec(),
    });
    Ok(wire::Response { status, headers: headers.collect(), body })
}

/// Returns the length of the body that the headers announce.
fn announced(headers: &HeaderMap) -> Result<Option<u64>, InvalidResponse> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match text.and_then(|text| text.parse().ok()) {
        Some(length) if lengths.all(|length| length == first) => Ok(Some(length)),
        _ => {
            let announced = escape_control(&truncate(&format!("{first:?}")));
            Err(InvalidResponse::ContentLength { announced, written: 0 })
        }
    }
}

impl types::HostResponseOutparam for Http<'_> {
    fn set(
        &mut self,
        place: Resource<ResponseOutparam>,
        response: Result<Resource<OutgoingResponse>, ErrorCode>,
    ) -> wasmtime::Result<()> {
        self.table.delete(place)?;
        self.state.outcome = Some(match response {
            Ok(response) => Ok(self.table.delete(response)?),
            Err(code) => Err(escape_control(&truncate(&format!("{code:?}")))),
        });
        Ok(())
    }

    fn drop(&mut self, place: Resource<ResponseOutparam>) -> wasmtime::Result<()> {
        self.table.delete(place)?;
        Ok(())
    }
}

impl types::HostOutgoingResponse for Http<'_> {
    fn new(&mut self, headers: Resource<Fields>) -> wasmtime::Result<Resource<OutgoingResponse>> {
        let headers = self.take_fields(headers)?;
        Ok(self.table.push(OutgoingResponse { status: 200, headers, body: None })?)
    }

    fn status_code(&mut self, response: Resource<OutgoingResponse>) -> wasmtime::Result<u16> {
        Ok(self.table.get(&response)?.status)
    }

    fn set_status_code(
        &mut self,
        response: Resource<OutgoingResponse>,
        status: u16,
    ) -> wasmtime::Result<Result<(), ()>> {
        if http::StatusCode::from_u16(status).is_err() {
            return Ok(Err(()));
        }
        self.table.get_mut(&response)?.status = status;
        Ok(Ok(()))
    }

    fn headers(
        &mut self,
        response: Resource<OutgoingResponse>,
    ) -> wasmtime::Result<Resource<Fields>> {
        self.show(|http| Ok(&http.table.get(&response)?.headers))
    }

    fn body(
        &mut self,
        response: Resource<OutgoingResponse>,
    ) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        let response = self.table.get_mut(&response)?;
        if response.body.is_some() {
            return Ok(Err(()));
        }
        let Ok(announced) = announced(&response.headers) else { return Ok(Err(())) };
        let (outgoing, body) =
            OutgoingBody::of_response(announced, &self.state.budget, &self.module.limits);
        response.body = Some(body);
        Ok(Ok(self.table.push(outgoing)?))
    }

    fn drop(&mut self, response: Resource<OutgoingResponse>) -> wasmtime::Result<()> {
        self.table.delete(response)?;
        Ok(())
    }
}

impl types::HostOutgoingBody for Http<'_> {
    fn write(
        &mut self,
        body: Resource<OutgoingBody>,
    ) -> wasmtime::Result<Result<Resource<DynOutputStream>, ()>> {
        let Some(stream) = self.table.get_mut(&body)?.stream.take() else { return Ok(Err(())) };
        Ok(Ok(self.table.push_child(stream, &body)?))
    }

    fn finish(
        &mut self,
        body: Resource<OutgoingBody>,
        trailers: Option<Resource<Fields>>,
    ) -> wasmtime::Result<Result<(), ErrorCode>> {
        if let Some(trailers) = trailers {
            self.table.delete(trailers)?;
        }
        let body = self.table.delete(body)?;
        let finished = body.collected.map_or(Ok(()), |body| body.finish());
        Ok(finished.map_err(|written| ErrorCode::HttpResponseBodySize(Some(written))))
    }

    /// Drops a body that was not finished, so that the response is invalid.
    fn drop(&mut self, body: Resource<OutgoingBody>) -> wasmtime::Result<()> {
        self.table.delete(body)?;
        Ok(())
    }
}
