//! The fleet of the settings: the state of the relayer is published there, and its modules are
//! deployed to the mounts of this server.

use std::sync::Arc;

use relayer_rest_host::fleet::{FleetSettings, Publication, machine_name};
use relayer_rest_host::reload::{FleetModules, Modules};
use relayer_rest_host::state::{Polling, StatePublisher};

use crate::error::SpawnError;

/// Begins to publish the state to the fleet of the settings, if there is one. The tasks end with
/// the runtime.
pub(crate) async fn publish(
    mut settings: FleetSettings,
    port: u16,
    polling: &Polling,
    publisher: &StatePublisher,
    modules: Arc<Modules>,
) -> Result<(), SpawnError> {
    let Some(to) = settings.publish_to.clone() else { return Ok(()) };
    settings.name.get_or_insert_with(|| format!("{}-{port}", machine_name()));
    // The relayer confirms its state with each poll that succeeds.
    let max_unconfirmed = polling.poll + polling.timeout * 2;
    let publication = Publication::open(&to, &settings, max_unconfirmed).await?;
    let mounts = FleetModules::new(modules, publisher.reader());
    let following = publication.following(Arc::new(mounts), publisher.reader());
    tokio::spawn(following.run(|| {}));
    tokio::spawn(publication.run(publisher.clone()));
    Ok(())
}
