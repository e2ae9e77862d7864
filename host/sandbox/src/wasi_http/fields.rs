//! Headers of the request and of a component's messages.
//!
//! The memory of a component's headers counts for `limits.memory` until the end of the request, and
//! their number is bounded.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use wasmtime::component::Resource;

use super::Http;
use super::bindings::types::{self, HeaderError};
use super::resources::Fields;
use crate::info::ModuleInfo;
use crate::limiter::Limiter;
use crate::read_set::TrackedSnapshot;
use crate::response::InvalidResponse;

/// The headers that a component cannot set: the host sets them, or removes them as those of
/// a connection. Other hosts forbid the same ones.
const FORBIDDEN: [HeaderName; 9] = [
    header::CONNECTION,
    header::HOST,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The memory of a header besides its name and its value, in bytes.
const OVERHEAD: usize = 128;

/// The number of headers that a component can always have: as many as a request.
const MIN_HEADERS: u32 = 100;

/// The limits on the headers of a component.
struct Room<'a> {
    limiter: &'a mut Limiter,
    headers: u32,
}

impl<'a> Room<'a> {
    fn new(limiter: &'a mut Limiter, module: &ModuleInfo) -> Self {
        Self { limiter, headers: module.limits.headers.max(MIN_HEADERS) }
    }

    /// Adds a header, or returns the error that the component gets.
    fn append(
        &mut self,
        headers: &mut HeaderMap,
        name: &str,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), HeaderError>> {
        let size = name.len() + value.len();
        let (name, value) = match parse(name, value) {
            Ok(header) => header,
            Err(error) => return Ok(Err(error)),
        };
        let (count, limit) = (headers.len() + 1, self.headers);
        if count > limit as usize {
            return Err(InvalidResponse::TooManyHeaders { count, limit }.into());
        }
        self.limiter.charge(size + OVERHEAD)?;
        headers.append(name, value);
        Ok(Ok(()))
    }

    /// Copies headers.
    fn copy(&mut self, headers: &HeaderMap) -> wasmtime::Result<HeaderMap> {
        let size = |(name, value): (&HeaderName, &HeaderValue)| {
            name.as_str().len() + value.len() + OVERHEAD
        };
        self.limiter.charge(headers.iter().map(size).sum())?;
        Ok(headers.clone())
    }
}

fn parse(name: &str, value: Vec<u8>) -> Result<(HeaderName, HeaderValue), HeaderError> {
    let name = name.parse().map_err(|_| HeaderError::InvalidSyntax)?;
    if FORBIDDEN.contains(&name) {
        return Err(HeaderError::Forbidden);
    }
    let value = HeaderValue::try_from(value).map_err(|_| HeaderError::InvalidSyntax)?;
    Ok((name, value))
}

/// Reads all visible headers of the request, in the order of their names.
fn read_all(snapshot: &mut TrackedSnapshot, module: &ModuleInfo) -> Vec<(HeaderName, HeaderValue)> {
    let Some(names) = module.request_headers.names() else { return snapshot.visible_headers() };
    let values = |name: &HeaderName| {
        let values = snapshot.header(name).into_iter();
        values.map(|value| (name.clone(), value)).collect::<Vec<_>>()
    };
    names.iter().flat_map(values).collect()
}

impl Http<'_> {
    /// Takes headers that become part of a message.
    pub(super) fn take_fields(&mut self, fields: Resource<Fields>) -> wasmtime::Result<HeaderMap> {
        match self.table.delete(fields)? {
            Fields::Request => self.request_headers(),
            Fields::Mutable(headers) | Fields::Immutable(headers) => Ok(headers),
        }
    }

    /// Shows headers that are part of a message.
    pub(super) fn show(
        &mut self,
        message: impl FnOnce(&Self) -> wasmtime::Result<&HeaderMap>,
    ) -> wasmtime::Result<Resource<Fields>> {
        let headers = message(self)?.clone();
        let headers = Room::new(self.limiter, self.module).copy(&headers)?;
        Ok(self.table.push(Fields::Immutable(headers))?)
    }

    /// Returns the headers of the request, all of which are read.
    fn request_headers(&mut self) -> wasmtime::Result<HeaderMap> {
        let headers: HeaderMap = read_all(self.snapshot, self.module).into_iter().fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            },
        );
        Room::new(self.limiter, self.module).copy(&headers)
    }

    /// Returns the values of a header.
    fn values(&mut self, fields: &Resource<Fields>, name: &str) -> wasmtime::Result<Vec<Vec<u8>>> {
        let Ok(name) = name.parse::<HeaderName>() else { return Ok(Vec::new()) };
        Ok(match self.table.get(fields)? {
            Fields::Request if self.module.request_headers.contains(&name) => {
                self.snapshot.header(&name).iter().map(|value| value.as_bytes().to_vec()).collect()
            }
            Fields::Request => Vec::new(),
            Fields::Mutable(headers) | Fields::Immutable(headers) => {
                headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect()
            }
        })
    }
}

impl types::HostFields for Http<'_> {
    fn new(&mut self) -> wasmtime::Result<Resource<Fields>> {
        Ok(self.table.push(Fields::Mutable(HeaderMap::new()))?)
    }

    fn from_list(
        &mut self,
        entries: Vec<(String, Vec<u8>)>,
    ) -> wasmtime::Result<Result<Resource<Fields>, HeaderError>> {
        let mut room = Room::new(self.limiter, self.module);
        let mut headers = HeaderMap::new();
        for (name, value) in entries {
            if let Err(error) = room.append(&mut headers, &name, value)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(self.table.push(Fields::Mutable(headers))?))
    }

    fn get(&mut self, fields: Resource<Fields>, name: String) -> wasmtime::Result<Vec<Vec<u8>>> {
        self.values(&fields, &name)
    }

    fn has(&mut self, fields: Resource<Fields>, name: String) -> wasmtime::Result<bool> {
        self.values(&fields, &name).map(|values| !values.is_empty())
    }

    fn set(
        &mut self,
        fields: Resource<Fields>,
        name: String,
        values: Vec<Vec<u8>>,
    ) -> wasmtime::Result<Result<(), HeaderError>> {
        let Fields::Mutable(headers) = self.table.get_mut(&fields)? else {
            return Ok(Err(HeaderError::Immutable));
        };
        // Nothing changes if one of the values is invalid.
        let mut room = Room::new(self.limiter, self.module);
        let mut new = HeaderMap::new();
        for value in values {
            if let Err(error) = room.append(&mut new, &name, value)? {
                return Ok(Err(error));
            }
        }
        let Ok(name) = name.parse::<HeaderName>() else {
            return Ok(Err(HeaderError::InvalidSyntax));
        };
        headers.remove(&name);
        if headers.len() + new.len() > room.headers as usize {
            let (count, limit) = (headers.len() + new.len(), room.headers);
            return Err(InvalidResponse::TooManyHeaders { count, limit }.into());
        }
        headers.extend(new);
        Ok(Ok(()))
    }

    fn delete(
        &mut self,
        fields: Resource<Fields>,
        name: String,
    ) -> wasmtime::Result<Result<(), HeaderError>> {
        let Fields::Mutable(headers) = self.table.get_mut(&fields)? else {
            return Ok(Err(HeaderError::Immutable));
        };
        let Ok(name) = name.parse::<HeaderName>() else {
            return Ok(Err(HeaderError::InvalidSyntax));
        };
        headers.remove(name);
        Ok(Ok(()))
    }

    fn append(
        &mut self,
        fields: Resource<Fields>,
        name: String,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), HeaderError>> {
        let Fields::Mutable(headers) = self.table.get_mut(&fields)? else {
            return Ok(Err(HeaderError::Immutable));
        };
        Room::new(self.limiter, self.module).append(headers, &name, value)
    }

    fn entries(&mut self, fields: Resource<Fields>) -> wasmtime::Result<Vec<(String, Vec<u8>)>> {
        let entry = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), value.as_bytes().to_vec())
        };
        Ok(match self.table.get(&fields)? {
            Fields::Request => {
                let headers = read_all(self.snapshot, self.module);
                headers.iter().map(|(name, value)| entry((name, value))).collect()
            }
            Fields::Mutable(headers) | Fields::Immutable(headers) => {
                headers.iter().map(entry).collect()
            }
        })
    }

    fn clone(&mut self, fields: Resource<Fields>) -> wasmtime::Result<Resource<Fields>> {
        let headers = match self.table.get(&fields)? {
            Fields::Request => self.request_headers()?,
            Fields::Mutable(headers) | Fields::Immutable(headers) => {
                Room::new(self.limiter, self.module).copy(headers)?
            }
        };
        Ok(self.table.push(Fields::Mutable(headers))?)
    }

    fn drop(&mut self, fields: Resource<Fields>) -> wasmtime::Result<()> {
        self.table.delete(fields)?;
        Ok(())
    }
}
