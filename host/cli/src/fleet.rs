//! The fleet of the settings: its state is read from there, or published there, and its modules are
//! deployed to the mounts of a server.

use std::future::pending;
use std::process;
use std::sync::Arc;

use relayer_rest_common::{priority, threads};
use relayer_rest_fleet::{FleetError, FleetMounts, Publication, Subscription, machine_name};
use relayer_rest_server::config::{Config, ListenAddress};
use relayer_rest_state::{NotReady, StatePublisher};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

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
        let mut settings = config.fleet.clone();
        settings.name.get_or_insert_with(|| default_name(config));
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
    /// ends. The modules of the fleet are deployed to these mounts, if there are any, and the state of
    /// the fleet is not known before.
    pub(super) fn run(self, publisher: &StatePublisher, mounts: Option<Arc<dyn FleetMounts>>) {
        if let Some(subscription) = self.subscription {
            let (ready, are_ready) = oneshot::channel();
            if let Some(mounts) = &mounts {
                publisher.set_not_ready(NotReady {
                    message: "the modules of the fleet are not active yet".to_owned(),
                    ..NotReady::default()
                });
                let following = subscription.following(Arc::clone(mounts), publisher.reader());
                self.runtime.spawn(following.run(move || {
                    // The receiver is there as long as the process.
                    ready.send(()).ok();
                }));
            }
            let reading = {
                let publisher = publisher.clone();
                self.runtime.spawn(async move {
                    // Without mounts, there is nothing to wait for.
                    are_ready.await.ok();
                    subscription.run(publisher).await;
                })
            };
            let publisher = publisher.clone();
            self.runtime.spawn(if_ended(reading, move |reason| publisher.set_not_ready(reason)));
        }
        if let Some(publication) = self.publication {
            if let Some(mounts) = mounts {
                let following = publication.following(mounts, publisher.reader());
                self.runtime.spawn(following.run(|| {}));
            }
            let publishing = self.runtime.spawn(publication.run(publisher.clone()));
            let publisher = publisher.clone();
            self.runtime.spawn(if_ended(publishing, move |_| publisher.set_epoch(None)));
        }
    }
}

/// Returns the name of this host in its fleet, which differs by the port on one machine.
fn default_name(config: &Config) -> String {
    let mut ports = config.listen.0.iter().filter_map(|listener| match listener.address {
        ListenAddress::Tcp { port, .. } => Some(u32::from(port)),
        ListenAddress::Unix(_) => None,
    });
    let place = ports.find(|port| *port != 0).unwrap_or_else(process::id);
    format!("{}-{place}", machine_name())
}
