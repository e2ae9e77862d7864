//! The stored plan of a fleet.

use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, Message};

use super::plan::Plan;
use crate::connection::{Connection, check_stream, plan_stream_config, stored_number};
use crate::message::Message as _;
use crate::settings::StreamReplicas;
use crate::subjects::Subjects;

/// Creates the stream of plans, if there is none.
pub(super) async fn create(
    jetstream: &Context,
    subjects: &Subjects,
    replicas: StreamReplicas,
) -> Result<(), String> {
    let config = plan_stream_config(subjects, replicas);
    let stream = jetstream.get_or_create_stream(config.clone()).await;
    let stream = stream.map_err(|error| error.to_string())?;
    check_stream(&stream.cached_info().config, &config)
}

/// Reads the plan with its number, which is 0 if there is none.
pub(super) async fn read(client: &Client, subjects: &Subjects) -> Result<(u64, Plan), String> {
    let stream = subjects.plan_stream();
    match Connection::last_message(client, &stream, &subjects.plan()).await? {
        None => Ok((0, Plan::new())),
        Some(message) => decode(&message),
    }
}

/// Decodes a stored or republished plan.
pub(super) fn decode(message: &Message) -> Result<(u64, Plan), String> {
    let number = stored_number(message).ok_or("it has no number of a stream")?;
    let plan = Plan::decode(&message.payload).map_err(|error| error.to_string())?;
    Ok((number, plan))
}

/// Stores a plan after the one with this number, and returns its number, or `None` if there is a
/// newer one.
pub(super) async fn store(
    jetstream: &Context,
    subjects: &Subjects,
    after: u64,
    plan: &Plan,
) -> Result<Option<u64>, String> {
    let publish = PublishMessage::build().payload(plan.encode());
    let publish = publish.expected_last_subject_sequence(after);
    let acknowledgement = jetstream.send_publish(subjects.plan(), publish).await;
    match acknowledgement.map_err(|error| error.to_string())?.await {
        Ok(stored) => Ok(Some(stored.sequence)),
        Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
