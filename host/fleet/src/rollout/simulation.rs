//! Coordinators and the hosts of a fleet in virtual time, with lost, repeated and late messages,
//! writers that change, hosts that restart, end, join and are cut off, and modules that fail, as a
//! test.
//! `FLEET_SCHEDULES=10000` simulates more schedules, and `FLEET_SEED` begins with another one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures_util::future::BoxFuture;

use super::coordinator::{self, Coordinator, Event};
use super::follower::{self, Follower};
use super::message::HostReport;
use super::mounts::{ActiveModule, Comparison, DeployError, Deployed, Deployment, FleetMounts};
use super::plan::tests::{module, new_rollout};
use super::plan::{NewRollout, Phase, Plan};
use super::stages::Stages;
use crate::message::{Message, VERSION};
use crate::simulation::variable;

const MOUNT: &str = "/";
const HOSTS: usize = 40;
const TICK: Duration = Duration::from_millis(100);

/// The ticks in which messages are lost, and hosts and writers restart.
const FAULTY: u32 = 600;
/// The ticks after which the roll-out has ended everywhere: those of missing hosts, those of hosts
/// that are cut off, and more.
const RECOVERY: u32 = 4000;

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
    fn deploy(&self, _: Deployment) -> BoxFuture<'static, Result<Option<Deployed>, DeployError>> {
        unreachable!("deployments of the simulation have no future")
    }

    fn active(&self, _: &str) -> Option<ActiveModule> {
        let Service { active, runs, .. } = self.service.lock().unwrap().clone();
        let has_failed = self.behaviour == Behaviour::Fails && active == module(2);
        let has_failed = has_failed && runs >= FAILING_RUN;
        let failures = has_failed.then(|| ("trap".to_owned(), 1)).into_iter().collect();
        Some(ActiveModule { mount: 1, digest: active, runs, failures })
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
    name: String,
    follower: Follower,
    mounts: Mounts,
    /// The deployment in progress, with the tick of its end.
    deploying: Option<(u32, u64, Deployment)>,
    /// The result of a deployment that the follower has not got yet.
    ended: Option<(u64, Result<Option<Deployed>, DeployError>)>,
    /// The tick at which it is connected again.
    cut_until: u32,
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
        for place in 0..HOSTS {
            let host = simulation.host(place);
            simulation.hosts.push(host);
        }
        simulation
    }

    fn host(&mut self, place: usize) -> Host {
        let is_affected = place.is_multiple_of(self.every);
        let behaviour = if is_affected { self.behaviour } else { Behaviour::Good };
        let mounts = Mounts { behaviour, service: Mutex::default() };
        // One that restarts has another name from time to time, as when it is replaced.
        let name = format!("host-{place}-{}", self.random.u32(..2));
        let follower = Follower::new(name.clone(), self.now());
        Host { name, follower, mounts, deploying: None, ended: None, cut_until: 0 }
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
                self.read(place);
            }
            if self.happens(1) && self.random.u32(..10) == 0 {
                self.hosts[place].cut_until = self.tick + self.random.u32(..800);
            }
            if self.hosts[place].cut_until == self.tick {
                self.read(place);
            }
            self.host_step(place);
        }
        self.tick += 1;
    }

    /// Lets a host read the plan, as at its start and when it is connected again.
    fn read(&mut self, place: usize) {
        let (number, plan) = self.stored.clone();
        let actions = self.hosts[place].follower.follow(number, plan);
        self.deploy(place, actions);
    }

    fn is_cut_off(&self, host: usize) -> bool {
        self.tick < self.hosts[host].cut_until
    }

    fn receive(&mut self, message: Sent) {
        let now = self.now();
        match message {
            Sent::Plan(host, ..) | Sent::Call(host, _) if self.is_cut_off(host) => {}
            Sent::Plan(host, number, plan) => {
                let actions = self.hosts[host].follower.follow(number, plan);
                self.deploy(host, actions);
            }
            Sent::Call(host, number) => {
                let follower = &self.hosts[host].follower;
                let is_behind = number > follower.plan_number();
                let report = HostReport {
                    version: VERSION,
                    host: self.hosts[host].name.clone(),
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
                coordinator::Action::Store { after, plan, .. } => {
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
            let is_new = deployment.module == Some(module(2));
            let is_fleets =
                self.stored.1.mount(MOUNT).is_some_and(|plan| plan.module == Some(module(2)));
            assert!(!is_new || deployment.observation.is_some() || is_fleets, "not compared");
            self.hosts[host].ended = None;
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
        if let Some((attempt, result)) = host.ended.take() {
            actions.extend(host.follower.deployed(MOUNT, attempt, result, &host.mounts, now));
        }
        if let Some((_, attempt, deployment)) =
            host.deploying.take_if(|(end, ..)| *end <= self.tick)
        {
            let is_new = deployment.module == Some(module(2));
            let differs = is_new && host.mounts.behaviour == Behaviour::Differs;
            let result = if is_delayed {
                Err(DeployError::Waiting("the clients send few requests".to_owned()))
            } else if differs {
                Err(DeployError::Rejected("the responses differ".to_owned()))
            } else {
                let digest = deployment.module.unwrap_or_default();
                host.mounts.activate(digest.clone());
                Ok(Some(Deployed { mount: 1, digest, compared: Comparison::default() }))
            };
            // The follower gets it in the next step, in which the module may have failed.
            host.ended = Some((attempt, result));
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
    let stages = ["1,10%,all", "5,10%,all", "all", "10%,2,50%,all"];
    let stages: Stages = stages[simulation.random.usize(..stages.len())].parse().unwrap();
    let new = |number| {
        let stages = stages.clone();
        NewRollout { min_requests: MIN_REQUESTS, stages, ..new_rollout(number) }
    };
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
    let count = stages.as_slice().len();
    let mut stages = Vec::new();
    let mut last_place = 0;
    while simulation.tick < begin + FAULTY + RECOVERY {
        let is_in_progress = matches!(simulation.phase(), Phase::Counting | Phase::Stage { .. });
        if pauses == Some(simulation.tick) && is_in_progress {
            simulation.change(|plan| plan.set_paused(MOUNT, true).unwrap());
        }
        if simulation.tick == begin + FAULTY && is_in_progress {
            simulation.change(|plan| plan.set_paused(MOUNT, false).unwrap());
        }
        simulation.step();
        if let Phase::Stage { stage, last } = simulation.phase() {
            assert!(last >= last_place, "hosts have left the roll-out");
            last_place = last;
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
            assert!(stages.iter().copied().eq(0..count), "{stages:?}");
            module(2)
        }
        Phase::RolledBack { host, .. } => {
            assert!(!is_good, "a good module was rolled back");
            let host = host.unwrap();
            let host: usize = host.split('-').nth(1).unwrap().parse().unwrap();
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
