//! A takeover: a new process receives the sockets of a running server, and the running one
//! drains.
//!
//! After `POST /takeover` with `upgrade: relayer-rest-takeover`, the two processes send
//! messages over the same Unix socket, each as JSON after its length:
//!
//! | step | from | message |
//! |---|---|---|
//! | 1 | new | `hello`, with the version of the protocol |
//! | 2 | old | `offer`, with the file descriptors of the sockets |
//! | 3 | new | `ready`, once it accepts connections |
//! | 4 | old | `handed-over`, with which the new process owns the sockets |
//! | 5 | new | `taken`, upon which the old process begins to drain |
//!
//! Until step 5, the old process serves as before, and goes on if anything fails: it sends
//! `aborted`, or closes the connection.
//!
//! | file | job |
//! |---|---|
//! | `channel.rs` | messages with file descriptors |
//! | `message.rs` | the messages, and their limits |
//! | `sockets.rs` | the sockets of a server, and received ones |
//! | `handover.rs` | the side of the old process |
//! | `successor.rs` | the side of the new process |

mod channel;
mod handover;
mod message;
mod sockets;
mod successor;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::timeout;

pub use channel::ChannelError;
pub(super) use handover::UPGRADE;
pub use handover::{Handover, HandoverError};
pub use message::{MountOffer, Role};
pub use sockets::{ReceivedSocket, SocketError};
pub use successor::{Takeover, TakeoverError};

/// The time for a message that the other process sends at once.
const MAX_STEP_TIME: Duration = Duration::from_secs(10);

/// Waits for a message that the other process sends at once.
async fn step<T>(
    message: impl Future<Output = Result<T, ChannelError>>,
) -> Result<T, ChannelError> {
    timeout(MAX_STEP_TIME, message).await.unwrap_or(Err(ChannelError::Timeout))
}
