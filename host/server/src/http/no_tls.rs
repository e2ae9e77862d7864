//! Without TLS: no listener has it.

use std::io;
use std::sync::Arc;

use super::connections::{Detected, Socket, Stream};
use super::listen_config::ListenConfig;

/// The TLS of a listener, of which there is none.
#[derive(Debug)]
pub(super) enum Tls {}

/// The configuration of TLS and its files, of which there are none.
#[derive(Debug)]
pub(super) enum TlsState {}

/// The configuration of TLS, of which there is none.
#[derive(Debug)]
pub(super) enum TlsConfig {}

/// A problem with the files of TLS, of which there are none.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {}

impl Tls {
    #[expect(clippy::unnecessary_wraps, reason = "with TLS, it can fail")]
    pub(super) fn load(_: &ListenConfig) -> Result<Option<Self>, TlsError> {
        Ok(None)
    }

    pub(super) fn current(&self) -> Arc<TlsConfig> {
        match *self {}
    }

    pub(super) fn state(&self) -> Arc<TlsState> {
        match *self {}
    }
}

impl TlsState {
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        match *self {}
    }
}

#[expect(clippy::unused_async, reason = "with TLS, it waits for the client")]
pub(super) async fn accept(_: Socket, config: Arc<TlsConfig>) -> io::Result<(Stream, Detected)> {
    match *config {}
}
