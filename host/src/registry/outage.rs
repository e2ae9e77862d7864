//! An extension that is out of service because it failed too often. It is
//! looked at again from time to time, aside from clients, and put back when it
//! answers.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{error, info, warn};

use super::active::Active;
use super::mount::Mount;
use crate::backoff::Backoff;
use crate::module::CallError;
use crate::state::StateReader;
use crate::text::{cut, one_line};

/// The longest time between two looks; one that is in service for longer is
/// trusted as at first.
pub(super) const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// Why there is no service, and until when at least.
#[derive(Debug, Clone)]
pub(super) struct Outage {
    pub(super) reason: String,
    /// When it is looked at again.
    pub(super) next: Instant,
}

impl Outage {
    /// What a client has to wait at least.
    pub(super) fn retry_after(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}

impl Mount {
    /// Takes an extension out of service that failed too often; where it is out
    /// by now, or another is there, that stays so.
    pub(super) fn take_out(
        self: &Arc<Self>,
        failed: &Arc<Active>,
        cause: &CallError,
        state: &StateReader,
    ) {
        let mut outage = self.outage();
        if outage.is_some() || !Arc::ptr_eq(&self.active(), failed) {
            return;
        }
        let mut backoff = failed.backoff(self.budget());
        let wait = backoff.next();
        let (runs, faults) = (failed.runs(), failed.faults());
        let cause = one_line(&cut(&cause.to_string()));
        let reason = format!("it failed {faults} times in {runs} runs, at last because {cause}");
        let module = failed.module().label();
        error!(
            mount = %self.path(),
            ?module,
            "the extension is taken out of service, and looked at again in {wait:?}: {reason}"
        );
        *outage = Some(Outage { reason, next: Instant::now() + wait });
        self.set_out(true);
        // Whoever waits holds nothing of what may be gone by then.
        let (mount, failed, state) = (Arc::downgrade(self), Arc::downgrade(failed), state.clone());
        tokio::spawn(bring_back(mount, failed, state, backoff, wait));
    }
}

/// Looks at a module that is out of service until it answers, or until another
/// is in its place.
async fn bring_back(
    mount: Weak<Mount>,
    failed: Weak<Active>,
    state: StateReader,
    mut backoff: Backoff,
    mut wait: Duration,
) {
    loop {
        sleep(wait).await;
        let Some((mount, failed)) = mount.upgrade().zip(failed.upgrade()) else { return };
        if !Arc::ptr_eq(&mount.active(), &failed) {
            return;
        }
        let found = mount.look(&state).await;
        let mut outage = mount.outage();
        // Another may have been put there meanwhile, which ended the outage.
        let Some(known) = outage.as_mut().filter(|_| Arc::ptr_eq(&mount.active(), &failed)) else {
            return;
        };
        match found {
            Ok(()) => {
                drop(outage);
                info!(mount = %mount.path(), "the extension answers, and is back in service");
                mount.put_back(&failed, backoff);
                return;
            }
            Err(reason) => {
                wait = backoff.next();
                known.next = Instant::now() + wait;
                warn!(mount = %mount.path(), "the extension still fails, and is looked at again in {wait:?}: {reason}");
            }
        }
    }
}
