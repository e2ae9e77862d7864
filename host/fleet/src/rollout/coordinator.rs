//! Begins the next stage of roll-outs, or rolls them back, without its connection.
//!
//! It decides by the reports of hosts that follow the present plan. A roll-out only goes on after
//! each host of its stage has activated the module and run it often enough.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::message::{HostReport, MountReport, MountState};
use super::plan::{MountPlan, Phase, Plan};

/// The time between two requests for reports, in a fleet of up to [`HOSTS_PER_INTERVAL`] hosts.
const INTERVAL: Duration = Duration::from_secs(1);

/// The number of hosts that report within an interval.
const HOSTS_PER_INTERVAL: usize = 2000;

/// The number of intervals after which a host has to report again to be one with the module.
const MAX_SILENT: u32 = 5;

/// The number of intervals after which a host without a report does not belong to the fleet. A host
/// that the module has brought down must not be taken for one that has ended.
const MAX_MISSING: u32 = 120;

/// The maximum number of hosts. The reports of further ones are ignored.
const MAX_HOSTS: usize = 200_000;

/// The number of intervals in which reports are requested after the end of a roll-out, by which
/// hosts notice that they have not got the last plan.
const CALLS_AFTER_END: u32 = 30;

/// The number of intervals in which the hosts are counted before each stage.
const COUNTING: u32 = 3;

/// Coordinates the roll-outs of a fleet.
pub(crate) struct Coordinator {
    /// The plan with its number, when it was read.
    plan: Option<(u64, Plan)>,
    /// The time of the first request for reports on the present plan.
    asked: Option<Instant>,
    next_call: Instant,
    hosts: BTreeMap<String, (Instant, HostReport)>,
    /// Whether a change of the plan is being stored.
    is_storing: bool,
}

/// An event for a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The plan that is stored, with its number.
    Plan(u64, Plan),
    Report(HostReport),
    /// A change could not be stored, because there is a newer plan, or perhaps was.
    NotStored,
}

/// An action of a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Request reports.
    Call { plan: u64, spread: Duration },
    /// Replace the plan with this number.
    Store { after: u64, before: Plan, plan: Plan },
}

impl Coordinator {
    pub(crate) fn new(now: Instant) -> Self {
        Self { plan: None, asked: None, next_call: now, hosts: BTreeMap::new(), is_storing: false }
    }

    /// Returns when it has something to do without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (_, plan) = self.plan.as_ref().filter(|(number, _)| *number > 0)?;
        let is_recent = || {
            let end = self.asked.map(|asked| asked + self.interval() * CALLS_AFTER_END);
            end.is_none_or(|end| self.next_call < end)
        };
        (plan.is_in_progress() || is_recent()).then_some(self.next_call)
    }

    pub(crate) fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        match event {
            Event::Plan(number, plan) => {
                let known = self.plan.as_ref().map(|(number, _)| *number);
                if known.is_none_or(|known| known < number) {
                    self.plan = Some((number, plan));
                    self.is_storing = false;
                    self.asked = None;
                    self.next_call = now;
                }
            }
            Event::Report(report) => {
                if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(&report.host) {
                    return Vec::new();
                }
                let is_failure =
                    |report: &MountReport| matches!(report.state, MountState::Failed { .. });
                let has_failed = report.mounts.iter().any(is_failure);
                self.hosts.insert(report.host.clone(), (now, report));
                // Otherwise, it is time at the next request.
                return if has_failed { self.decide(now) } else { Vec::new() };
            }
            Event::NotStored => self.is_storing = false,
        }
        Vec::new()
    }

    /// Requests reports and changes the plan, if it is time.
    pub(crate) fn wake(&mut self, now: Instant) -> Vec<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        let Some((number, _)) = &self.plan else { return Vec::new() };
        let interval = self.interval();
        let mut actions = vec![Action::Call { plan: *number, spread: interval / 2 }];
        self.asked.get_or_insert(now);
        self.next_call = now + interval;
        self.hosts.retain(|_, (heard, _)| now < *heard + interval * MAX_MISSING);
        actions.extend(self.decide(now));
        actions
    }

    /// Returns the interval between requests for reports, in which all hosts can report.
    fn interval(&self) -> Duration {
        let intervals = self.hosts.len().div_ceil(HOSTS_PER_INTERVAL).max(1);
        INTERVAL * u32::try_from(intervals).unwrap_or(u32::MAX)
    }

    /// Changes the plan, if the reports require it.
    fn decide(&mut self, now: Instant) -> Vec<Action> {
        let (false, Some((number, plan)), Some(asked)) = (self.is_storing, &self.plan, self.asked)
        else {
            return Vec::new();
        };
        let mut next = plan.clone();
        for mount in &plan.mounts {
            let Some(decision) = self.decision(mount, *number, asked, now) else { continue };
            match decision {
                Decision::Next(phase) => {
                    let is_completed = phase == Phase::Completed;
                    let next = next.mounts.iter_mut().find(|next| next.mount == mount.mount);
                    if let Some(next) = next {
                        next.rollout.phase = phase;
                        if is_completed {
                            next.module = Some(mount.rollout.new.module.clone());
                        }
                    }
                }
                Decision::RollBack { host, reason } => {
                    // It is in progress.
                    next.roll_back(&mount.mount, Some(host), &reason).ok();
                }
            }
        }
        if next == *plan {
            return Vec::new();
        }
        self.is_storing = true;
        vec![Action::Store { after: *number, before: plan.clone(), plan: next }]
    }

    fn decision(
        &self,
        mount: &MountPlan,
        number: u64,
        asked: Instant,
        now: Instant,
    ) -> Option<Decision> {
        let rollout = &mount.rollout;
        if !rollout.is_in_progress() {
            return None;
        }
        let reports = || {
            let reports = self.hosts.values().map(|(_, report)| report);
            reports.filter_map(|host| Some((host, report_on(host, mount)?)))
        };
        // A failure in an earlier stage counts, too.
        let failed = reports().find_map(|(host, report)| match &report.state {
            MountState::Failed { reason } => Some((host.host.clone(), reason.clone())),
            _ => None,
        });
        if let Some((host, reason)) = failed {
            return Some(Decision::RollBack { host, reason });
        }
        let names = || self.hosts.keys().map(String::as_str);
        // Hosts that have joined meanwhile have reported by then.
        if rollout.is_paused || now < asked + self.interval() * COUNTING {
            return None;
        }
        let stage = match rollout.phase {
            Phase::Counting => 0,
            Phase::Stage { stage, .. } => {
                let mut members = names().filter(|host| rollout.includes(host)).peekable();
                if members.peek().is_none() {
                    // All of them have ended.
                    stage
                } else if members.all(|host| self.has_passed(host, mount, number, now)) {
                    stage + 1
                } else {
                    return None;
                }
            }
            Phase::Completed | Phase::RolledBack { .. } => return None,
        };
        if stage == rollout.new.stages.as_slice().len() {
            return Some(Decision::Next(Phase::Completed));
        }
        let next = rollout.stage(stage, names())?;
        (next != rollout.phase).then_some(Decision::Next(next))
    }

    /// Returns whether a host has activated the module of a roll-out, and run it often enough.
    fn has_passed(&self, host: &str, mount: &MountPlan, number: u64, now: Instant) -> bool {
        let Some((heard, host)) = self.hosts.get(host) else { return false };
        let is_present = now < *heard + self.interval() * MAX_SILENT && host.plan >= number;
        let report = report_on(host, mount).filter(|_| is_present);
        report.is_some_and(|report| match report.state {
            MountState::Active { is_new, runs, .. } => {
                is_new && runs >= mount.rollout.new.min_requests
            }
            _ => false,
        })
    }
}

enum Decision {
    Next(Phase),
    RollBack { host: String, reason: String },
}

/// Returns the report of a host on the roll-out of a mount.
fn report_on<'a>(host: &'a HostReport, mount: &MountPlan) -> Option<&'a MountReport> {
    host.mounts
        .iter()
        .find(|report| report.mount == mount.mount && report.rollout == mount.rollout.id)
}

#[cfg(test)]
mod tests {
    use super::{Action, COUNTING, Coordinator, Event, INTERVAL, MAX_MISSING, MAX_SILENT};
    use crate::message::VERSION;
    use crate::rollout::message::{HostReport, MountReport, MountState};
    use crate::rollout::mounts::Comparison;
    use crate::rollout::plan::tests::new_rollout;
    use crate::rollout::plan::{Phase, Plan};
    use std::time::Instant;

    /// Returns a report of a host that runs the new module.
    fn report(host: &str) -> Event {
        let compared = Comparison::default();
        let state = MountState::Active { is_new: true, runs: 10, compared };
        Event::Report(HostReport {
            version: VERSION,
            host: host.to_owned(),
            plan: 1,
            generation: None,
            age: None,
            mounts: vec![MountReport { mount: "/".to_owned(), rollout: 1, state }],
        })
    }

    /// Returns a plan in the first stage, up to this host.
    fn plan(last: &str) -> Plan {
        let mut plan = Plan::new();
        plan.deploy("/", new_rollout(1)).unwrap();
        let last = plan.mounts[0].rollout.place(last);
        plan.mounts[0].rollout.phase = Phase::Stage { stage: 0, last };
        plan
    }

    /// Returns the phase that is stored at this interval, if one is.
    fn stored(coordinator: &mut Coordinator, now: Instant) -> Option<Phase> {
        let actions = coordinator.wake(now);
        actions.into_iter().find_map(|action| match action {
            Action::Store { plan, .. } => Some(plan.mounts[0].rollout.phase.clone()),
            Action::Call { .. } => None,
        })
    }

    /// Two names of hosts in the order of the first roll-out.
    fn names() -> [&'static str; 2] {
        let mut names = ["a", "b"];
        names.sort_by_key(|name| plan("a").mounts[0].rollout.place(name));
        names
    }

    #[test]
    fn a_stage_goes_to_other_hosts_if_all_of_its_hosts_have_ended() {
        let start = Instant::now();
        let [first, second] = names();
        let mut coordinator = Coordinator::new(start);
        coordinator.handle(Event::Plan(1, plan(first)), start);
        assert_eq!(stored(&mut coordinator, start), None);
        coordinator.handle(report(second), start);
        let last = plan(second).mounts[0].rollout.place(second);
        let chosen = Some(Phase::Stage { stage: 0, last });
        assert_eq!(stored(&mut coordinator, start + INTERVAL * COUNTING), chosen);
    }

    #[test]
    fn a_silent_host_keeps_its_stage() {
        let start = Instant::now();
        let [first, second] = names();
        let mut coordinator = Coordinator::new(start);
        coordinator.handle(Event::Plan(1, plan(second)), start);
        assert_eq!(stored(&mut coordinator, start), None);
        coordinator.handle(report(first), start);
        for interval in 1..MAX_MISSING {
            let now = start + INTERVAL * interval;
            coordinator.handle(report(second), now);
            let is_silent = interval >= MAX_SILENT;
            if is_silent {
                assert_eq!(stored(&mut coordinator, now), None, "{interval}");
            }
        }
        let now = start + INTERVAL * MAX_MISSING;
        coordinator.handle(report(second), now);
        let next = stored(&mut coordinator, now);
        assert!(matches!(next, Some(Phase::Stage { stage: 1, .. })), "{next:?}");
    }

    #[test]
    fn the_first_failure_rolls_back() {
        let start = Instant::now();
        let mut coordinator = Coordinator::new(start);
        coordinator.handle(Event::Plan(1, plan("a")), start);
        coordinator.wake(start);
        let Event::Report(mut failed) = report("b") else { unreachable!() };
        failed.mounts[0].state = MountState::Failed { reason: "it trapped".to_owned() };
        let actions = coordinator.handle(Event::Report(failed), start);
        let [Action::Store { after: 1, plan, .. }] = &actions[..] else { panic!("{actions:?}") };
        let (host, reason) = (Some("b".to_owned()), "it trapped".to_owned());
        assert_eq!(plan.mounts[0].rollout.phase, Phase::RolledBack { host, reason });
    }
}
