//! Coordinators and the hosts of a fleet in virtual time, with lost, repeated and late messages,
//! writers that change, hosts that restart, and modules that fail, as a test.
//! `FLEET_SCHEDULES=10000` simulates more schedules, and `FLEET_SEED` begins with another one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures_util::future::BoxFuture;

use super::coordinator::{self, Coordinator, Event};
use super::follower::{self, Follower};
use super::message::HostReport;
use super::mounts::{ActiveModule, DeployError, Deployment, FleetMounts};
use super::plan::tests::{module, new_rollout};
use super::plan::{NewRollout, Phase, Plan};
use crate::message::VERSION;
use crate::simulation::variable;

const MOUNT: &str = "/";
const HOSTS: usize = 40;
const TICK: Duration = Duration::from_millis(100);

/// The ticks in which messages are lost, and hosts and writers restart.
const FAULTY: u32 = 600;
/// The ticks after which the roll-out has ended everywhere.
const RECOVERY: u32 = 600;

/// The runs that a host needs for the next stage.
const MIN_REQUESTS: u64 = 5;
/// The run at which a module fails that passed its comparison.
const FAILING_RUN: u64 = 3;

/// How the new module behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Good,
    /// Its responses differ.
    Differs,
    /// It fails in service.
    Fails,
    /// It fails in service, and the mount replaces it by the module before.
    IsReplaced,
}

/// The mount of a host.
struct Mounts {
    behaviour: Behaviour,
    service: Mutex<Service>,
}

#[derive(Debug, Clone, Default)]
struct Service {
    /// Empty for the module of the settings.
    active: String,
    previous: String,
    runs: u64,
}

impl FleetMounts for Mounts {
    fn deploy(&self, _: Deployment) -> BoxFuture<'static, Result<(), DeployError>> {
        unreachable!("deployments of the simulation have no future")
    }

    fn active(&self, _: &str) -> Option<ActiveModule> {
        let Service { active, runs, .. } = self.service.lock().unwrap().clone();
        let has_failed = self.behaviour == Behaviour::Fails && active == module(2);
        let has_failed = has_failed && runs >= FAILING_RUN;
        let failures = has_failed.then(|| ("trap".to_owned(), 1)).into_iter().collect();
        Some(ActiveModule { mount: 0, digest: active, runs, failures })
    }

    fn failure(&self, _: &str, _: &str) -> Option<String> {
        Some("it was replaced".to_owned())
    }
}

impl Mounts {
    fn run(&self) {
        let mut service = self.service.lock().unwrap();
        service.runs += 1;
        let is_replaced = self.behaviour == Behaviour::IsReplaced && service.active == module(2);
        if is_replaced && service.runs >= FAILING_RUN {
            service.active = service.previous.clone();
        }
    }

    fn activate(&self, module: String) {
        let mut service = self.service.lock().unwrap();
        if service.active != module {
            let previous = std::mem::replace(&mut service.active, module);
            *service = Service { previous, runs: 0, ..service.clone() };
        }
    }
}

struct Host {
    follower: Follower,
    mounts: Mounts,
    /// The deployment in progress, with the tick of its end.
    deploying: Option<(u32, u64, Deployment)>,
}

/// A message on its way.
#[derive(Clone)]
enum Sent {
    Plan(usize, u64, Plan),
    Call(usize, u64),
    Report(HostReport),
}

struct Simulation {
    random: Rng,
    start: Instant,
    tick: u32,
    /// The tick at which the faults end.
    faults_end: u32,
    behaviour: Behaviour,
    /// The hosts on which a module that is not good fails: each one, or each of this number.
    every: usize,
    stored: (u64, Plan),
    coordinators: Vec<Coordinator>,
    hosts: Vec<Host>,
    /// The messages by the tick at which they arrive.
    sent: BTreeMap<u32, Vec<Sent>>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let behaviours =
            [Behaviour::Good, Behaviour::Differs, Behaviour::Fails, Behaviour::IsReplaced];
        let behaviour = behaviours[random.usize(..behaviours.len())];
        let every = if random.bool() { 1 } else { 7 };
        let start = Instant::now();
        let mut simulation = Self {
            coordinators: vec![Coordinator::new(start)],
            random,
            start,
            tick: 0,
            faults_end: u32::MAX,
            behaviour,
            every,
            stored: (0, Plan::new()),
            hosts: Vec::new(),
            sent: BTreeMap::new(),
        };
        simulation.hosts = (0..HOSTS).map(|place| simulation.host(place)).collect();
        simulation
    }

    fn host(&self, place: usize) -> Host {
        let is_affected = place.is_multiple_of(self.every);
        let behaviour = if is_affected { self.behaviour } else { Behaviour::Good };
        let mounts = Mounts { behaviour, service: Mutex::default() };
        let follower = Follower::new(format!("host-{place}"), self.now());
        Host { follower, mounts, deploying: None }
    }

    fn now(&self) -> Instant {
        self.start + TICK * self.tick
    }

    fn is_faulty(&self) -> bool {
        self.tick < self.faults_end
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.is_faulty() && self.random.u32(..100) < percent
    }

    /// Sends a message, which may be lost, late or repeated.
    fn send(&mut self, message: &Sent) {
        let copies = if self.happens(10) { self.random.u32(0..3) } else { 1 };
        for _ in 0..copies {
            let delay = if self.happens(10) { self.random.u32(1..50) } else { 1 };
            self.sent.entry(self.tick + delay).or_default().push(message.clone());
        }
    }

    fn store(&mut self, after: u64, plan: &Plan) -> bool {
        if self.stored.0 != after || self.happens(5) {
            return false;
        }
        // Readers decode it.
        let plan = Plan::decode(&plan.encode()).unwrap();
        self.stored = (after + 1, plan.clone());
        for host in 0..HOSTS {
            self.send(&Sent::Plan(host, after + 1, plan.clone()));
        }
        true
    }

    /// Lets an operator change the plan.
    fn change(&mut self, change: impl FnOnce(&mut Plan)) {
        let (number, mut plan) = self.stored.clone();
        change(&mut plan);
        while !self.store(number, &plan) {}
    }

    fn step(&mut self) {
        for message in self.sent.remove(&self.tick).unwrap_or_default() {
            self.receive(message);
        }
        self.coordinate();
        for place in 0..HOSTS {
            if self.happens(1) && self.random.u32(..10) == 0 {
                self.hosts[place] = self.host(place);
                // It reads the plan at its start.
                let (number, plan) = self.stored.clone();
                self.receive(Sent::Plan(place, number, plan));
            }
            self.host_step(place);
        }
        self.tick += 1;
    }

    fn receive(&mut self, message: Sent) {
        let now = self.now();
        match message {
            Sent::Plan(host, number, plan) => {
                let actions = self.hosts[host].follower.follow(number, plan);
                self.deploy(host, actions);
            }
            Sent::Call(host, number) => {
                let follower = &self.hosts[host].follower;
                let is_behind = number > follower.plan_number();
                let report = HostReport {
                    version: VERSION,
                    host: format!("host-{host}"),
                    plan: follower.plan_number(),
                    generation: None,
                    age: None,
                    mounts: follower.reports(),
                };
                if is_behind {
                    let (number, plan) = self.stored.clone();
                    self.send(&Sent::Plan(host, number, plan));
                }
                self.send(&Sent::Report(report));
            }
            Sent::Report(report) => {
                for place in 0..self.coordinators.len() {
                    let event = Event::Report(report.clone());
                    let actions = self.coordinators[place].handle(event, now);
                    self.act(place, actions);
                }
            }
        }
    }

    fn coordinate(&mut self) {
        // A writer may not know yet that there is another one.
        if self.happens(1) {
            self.coordinators.insert(0, Coordinator::new(self.now()));
        } else if self.coordinators.len() > 1 && self.random.u32(..30) == 0 {
            self.coordinators.truncate(1);
        }
        let is_read = self.tick.is_multiple_of(20);
        let now = self.now();
        for place in 0..self.coordinators.len() {
            if is_read {
                let (number, plan) = self.stored.clone();
                let event = Event::Plan(number, plan);
                let actions = self.coordinators[place].handle(event, now);
                self.act(place, actions);
            }
            let actions = self.coordinators[place].wake(now);
            self.act(place, actions);
        }
    }

    fn act(&mut self, place: usize, actions: Vec<coordinator::Action>) {
        for action in actions {
            match action {
                coordinator::Action::Call { plan, .. } => {
                    for host in 0..HOSTS {
                        self.send(&Sent::Call(host, plan));
                    }
                }
                coordinator::Action::Store { after, plan } => {
                    let event = if self.store(after, &plan) {
                        Event::Plan(after + 1, plan)
                    } else {
                        Event::NotStored
                    };
                    let now = self.now();
                    self.coordinators[place].handle(event, now);
                }
            }
        }
    }

    fn deploy(&mut self, host: usize, actions: Vec<follower::Action>) {
        for follower::Action::Deploy { attempt, deployment } in actions {
            let hold = deployment.observation.as_ref().map_or(Duration::ZERO, |hold| hold.time);
            let ticks = u32::try_from(hold.as_millis() / TICK.as_millis()).unwrap();
            let end = self.tick + ticks + self.random.u32(1..10);
            self.hosts[host].deploying = Some((end, attempt, deployment));
        }
    }

    fn host_step(&mut self, place: usize) {
        let now = self.now();
        let is_delayed = self.happens(10);
        if self.random.u32(..3) == 0 {
            self.hosts[place].mounts.run();
        }
        let host = &mut self.hosts[place];
        let mut actions = host.follower.wake(&host.mounts, now);
        if let Some((_, attempt, deployment)) =
            host.deploying.take_if(|(end, ..)| *end <= self.tick)
        {
            let is_new = deployment.module == Some(module(2));
            let differs = is_new && host.mounts.behaviour == Behaviour::Differs;
            let result = if is_delayed {
                Err(DeployError::NotYet("the registry does not respond".to_owned()))
            } else if differs {
                Err(DeployError::Rejected("the responses differ".to_owned()))
            } else {
                host.mounts.activate(deployment.module.unwrap_or_default());
                Ok(())
            };
            let deployed =
                host.follower.deployed(&deployment.mount, attempt, result, &host.mounts, now);
            actions.extend(deployed);
        }
        self.deploy(place, actions);
    }

    fn active(&self, host: usize) -> String {
        self.hosts[host].mounts.service.lock().unwrap().active.clone()
    }

    fn phase(&self) -> Phase {
        self.stored.1.mount(MOUNT).unwrap().rollout.phase.clone()
    }
}

/// Runs a schedule: a module that is deployed at once or not at all, and one that is rolled out.
fn run(seed: u64) {
    let mut simulation = Simulation::new(seed);
    let mut of_fleet = String::new();
    let new = |number| NewRollout { min_requests: MIN_REQUESTS, ..new_rollout(number) };
    if simulation.random.bool() {
        of_fleet = module(1);
        simulation.change(|plan| assert!(plan.deploy(MOUNT, new(1)).is_ok()));
        while simulation.phase() != Phase::Completed {
            simulation.step();
        }
    }
    simulation.change(|plan| assert!(plan.deploy(MOUNT, new(2)).is_ok()));
    let begin = simulation.tick;
    simulation.faults_end = begin + FAULTY;
    let pauses = simulation.random.bool().then(|| begin + simulation.random.u32(..FAULTY / 2));
    let is_good = simulation.behaviour == Behaviour::Good;
    let mut stages = Vec::new();
    while simulation.tick < begin + FAULTY + RECOVERY {
        let is_in_progress = matches!(simulation.phase(), Phase::Counting | Phase::Stage { .. });
        if pauses == Some(simulation.tick) && is_in_progress {
            simulation.change(|plan| plan.set_paused(MOUNT, true).unwrap());
        }
        if simulation.tick == begin + FAULTY && is_in_progress {
            simulation.change(|plan| plan.set_paused(MOUNT, false).unwrap());
        }
        simulation.step();
        if let Phase::Stage { stage, .. } = simulation.phase() {
            if stages.last() != Some(&stage) {
                stages.push(stage);
            }
            // One that fails everywhere does not leave the first stage.
            assert!(is_good || simulation.every > 1 || stage == 0, "stage {stage}");
        }
    }
    assert!(stages.is_sorted(), "{stages:?}");
    let expected = match simulation.phase() {
        Phase::Completed => {
            assert!(is_good, "a module was completed that fails");
            assert_eq!(stages, [0, 1, 2]);
            module(2)
        }
        Phase::RolledBack { host, .. } => {
            assert!(!is_good, "a good module was rolled back");
            let host: usize = host.unwrap().strip_prefix("host-").unwrap().parse().unwrap();
            assert!(host.is_multiple_of(simulation.every));
            of_fleet
        }
        phase => panic!("the roll-out has not ended: {phase:?}"),
    };
    for host in 0..HOSTS {
        assert_eq!(simulation.active(host), expected, "host {host}");
    }
}

#[test]
fn roll_outs_end_everywhere_or_nowhere() {
    let first = variable("FLEET_SEED", 0);
    for seed in first..first + variable("FLEET_SCHEDULES", 60) {
        let simulated = std::panic::catch_unwind(|| run(seed));
        assert!(simulated.is_ok(), "FLEET_SEED={seed} FLEET_SCHEDULES=1 repeats it");
    }
}
