//! A response that a connection holds.

use tokio::sync::oneshot;

use super::connections::{RequestMemory, Sending};
use super::send_budget::Reservation;

/// A response that a connection holds, until the system or its client has it.
///
/// If parts of the response's memory have several holders, they share it, so that the memory is
/// counted until the last of them is dropped.
#[derive(Debug)]
pub(super) struct Held {
    sending: Sending,
    _body: Option<Reservation>,
    /// Boxed, because most responses have none, and it would enlarge the bodies of all.
    others: Option<Box<Others>>,
}

/// The parts that responses of HTTP/2 and events have.
#[derive(Debug, Default)]
struct Others {
    /// The memory of the request, for HTTP/2 only.
    _request: Option<RequestMemory>,
    /// Tells a receiver that the client has the response.
    _taken: Option<oneshot::Sender<()>>,
}

impl Held {
    pub(super) fn new(
        sending: Sending,
        body: Option<Reservation>,
        request: Option<RequestMemory>,
    ) -> Self {
        let others = request.map(|request| Others { _request: Some(request), _taken: None });
        Self { sending, _body: body, others: others.map(Box::new) }
    }

    /// Drops the sender as soon as the client has the response.
    pub(super) fn signalling(self, taken: oneshot::Sender<()>) -> Self {
        let others = self.others.map_or_else(Others::default, |others| *others);
        Self { others: Some(Box::new(Others { _taken: Some(taken), ..others })), ..self }
    }

    /// Returns the response as its connection counts it.
    pub(super) fn sending(&self) -> &Sending {
        &self.sending
    }
}
