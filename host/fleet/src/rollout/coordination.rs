//! Coordinates the roll-outs of a fleet while this process writes its state.

use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::Context;
use futures_util::StreamExt;
use relayer_rest_common::text::for_log;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::coordinator::{Action, Coordinator, Event};
use super::message::{Call, HostReport};
use super::plan::{Phase, Plan};
use super::plan_store;
use crate::message::{Message, VERSION};
use crate::settings::StreamReplicas;
use crate::subjects::Subjects;

/// The interval in which the plan is read, in case that messages are lost.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// The interval in which the stream of plans is created, until that succeeds.
const CREATE_INTERVAL: Duration = Duration::from_secs(5);

/// Coordinates roll-outs whenever this process is the writer.
pub(crate) async fn coordinate(
    jetstream: Context,
    subjects: Subjects,
    replicas: StreamReplicas,
    mut is_writer: watch::Receiver<bool>,
) {
    while is_writer.wait_for(|is_writer| *is_writer).await.is_ok() {
        tokio::select! {
            ended = is_writer.wait_for(|is_writer| !is_writer) => drop(ended),
            () = run(&jetstream, &subjects, replicas) => return,
        }
    }
}

async fn run(jetstream: &Context, subjects: &Subjects, replicas: StreamReplicas) {
    let client = jetstream.client();
    while let Err(problem) = plan_store::create(jetstream, subjects, replicas).await {
        let problem = for_log(&problem);
        warn!(%problem, "plan of the fleet not kept, so that no host becomes ready; retrying");
        sleep(CREATE_INTERVAL).await;
    }
    let plans = client.subscribe(subjects.planned()).await;
    let reports = client.subscribe(subjects.report()).await;
    let (Ok(mut plans), Ok(mut reports)) = (plans, reports) else { return };
    let mut coordinator = Coordinator::new(Instant::now());
    let mut reads = interval(READ_INTERVAL);
    reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let deadline = coordinator.deadline();
        let actions = tokio::select! {
            biased;
            () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => {
                coordinator.wake(Instant::now())
            }
            _ = reads.tick() => match plan_store::read(&client, subjects).await {
                Ok((number, plan)) => coordinator.handle(Event::Plan(number, plan), Instant::now()),
                Err(problem) => {
                    debug!(problem = %for_log(&problem), "plan of the fleet not read");
                    continue;
                }
            },
            Some(message) = plans.next() => match plan_store::decode(&message) {
                Ok((number, plan)) => coordinator.handle(Event::Plan(number, plan), Instant::now()),
                Err(problem) => {
                    warn!(problem = %for_log(&problem), "plan of the fleet rejected");
                    continue;
                }
            },
            Some(message) = reports.next() => match HostReport::decode(&message.payload) {
                Ok(report) => coordinator.handle(Event::Report(report), Instant::now()),
                Err(error) => {
                    debug!(problem = %for_log(&error.to_string()), "report of a host rejected");
                    continue;
                }
            },
        };
        for action in actions {
            match action {
                // It would be late when the connection is back.
                Action::Call { .. } if client.connection_state() != State::Connected => {}
                Action::Call { plan, spread } => {
                    let call = Call { version: VERSION, plan, spread };
                    client.publish(subjects.call(), call.encode()).await.ok();
                }
                Action::Store { after, before, plan } => {
                    let stored = plan_store::store(jetstream, subjects, after, &plan).await;
                    let event = match stored {
                        Ok(Some(number)) => {
                            log(&before, &plan);
                            Event::Plan(number, plan)
                        }
                        Ok(None) => Event::NotStored,
                        Err(problem) => {
                            warn!(problem = %for_log(&problem), "plan of the fleet perhaps not stored");
                            Event::NotStored
                        }
                    };
                    if event == Event::NotStored {
                        reads.reset_immediately();
                    }
                    // It waits for reports then.
                    coordinator.handle(event, Instant::now());
                }
            }
        }
    }
}

/// Logs the roll-outs that have changed.
fn log(before: &Plan, plan: &Plan) {
    for mount in &plan.mounts {
        if before.mount(&mount.mount) == Some(mount) {
            continue;
        }
        let (rollout, mount) = (&mount.rollout, for_log(&mount.mount));
        let (id, module) = (rollout.id, for_log(&rollout.new.module));
        match &rollout.phase {
            Phase::Counting => {}
            Phase::Stage { stage, .. } => {
                let stage = rollout.new.stages.as_slice().get(*stage).map(ToString::to_string);
                info!(%mount, rollout = id, %module, stage, "roll-out in stage");
            }
            Phase::Completed => info!(%mount, rollout = id, %module, "roll-out completed"),
            Phase::RolledBack { host, reason } => {
                let (host, reason) = (host.as_deref().map(for_log), for_log(reason));
                warn!(%mount, rollout = id, %module, host, %reason, "roll-out rolled back");
            }
        }
    }
}
