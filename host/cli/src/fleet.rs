//! The fleet of the settings: its state is read from there, or published there.

use std::future::pending;

use relayer_rest_common::{priority, threads};
use relayer_rest_fleet::{FleetError, Publication, Subscription};
use relayer_rest_server::config::Config;
use relayer_rest_state::StatePublisher;
use tokio::runtime::Handle;

use super::poll::if_ended;
use super::serve_error::ServeError;

/// A connection to a fleet that is not in use yet.
pub(super) struct Fleet {
    runtime: Handle,
    subscription: Option<Subscription>,
    publication: Option<Publication>,
}

impl Fleet {
    /// Begins to connect to the fleet of the settings, if there is one.
    pub(super) async fn open(config: &Config) -> Result<Option<Self>, ServeError> {
        let settings = config.fleet.clone();
        if settings.from.is_none() && settings.publish_to.is_none() {
            return Ok(None);
        }
        // Clients come first, as with other sources.
        let runtime = threads::start_runtime("fleet", |runtime| {
            priority::lower_thread();
            runtime.block_on(pending::<()>());
        });
        let runtime = runtime.map_err(ServeError::Start)?;
        let upstream = config.upstream.clone();
        let opened = runtime.spawn(async move {
            let subscription = match &settings.from {
                Some(from) => Some(Subscription::open(from, &settings, upstream.max_stale).await?),
                None => None,
            };
            // The relayer confirms its state with each poll that succeeds.
            let max_unconfirmed = upstream.poll + upstream.timeout * 2;
            let publication = match &settings.publish_to {
                Some(to) => Some(Publication::open(to, &settings, max_unconfirmed).await?),
                None => None,
            };
            Ok::<_, FleetError>((subscription, publication))
        });
        let (subscription, publication) = opened.await.map_err(ServeError::Reading)??;
        Ok(Some(Self { runtime, subscription, publication }))
    }

    /// Publishes the state of the fleet, or publishes the state to the fleet, until the process
    /// ends.
    pub(super) fn run(self, publisher: &StatePublisher) {
        if let Some(subscription) = self.subscription {
            let reading = self.runtime.spawn(subscription.run(publisher.clone()));
            let publisher = publisher.clone();
            self.runtime.spawn(if_ended(reading, move |reason| publisher.set_not_ready(reason)));
        }
        if let Some(publication) = self.publication {
            let publishing = self.runtime.spawn(publication.run(publisher.clone()));
            let publisher = publisher.clone();
            self.runtime.spawn(if_ended(publishing, move |_| publisher.set_epoch(None)));
        }
    }
}
