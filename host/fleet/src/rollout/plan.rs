//! The plan of a fleet: the module of each mount, and its roll-out.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stages::Stages;
use crate::message::{Message, VERSION};

/// The maximum number of mounts.
pub(super) const MAX_MOUNTS: usize = 64;

/// The maximum length of the path of a mount, in bytes.
pub(super) const MAX_PATH: usize = 256;

/// The maximum length of the reference of a module, in bytes.
const MAX_REFERENCE: usize = 1024;

/// The maximum length of expected changes, in bytes.
const MAX_EXPECTED: usize = 16 << 10;

/// The maximum length of the reason of a failure, in bytes.
pub(super) const MAX_REASON: usize = 1024;

/// The maximum length of the name of a host, in bytes.
pub(super) const MAX_NAME: usize = 128;

/// The maximum size of a new plan, in bytes: that of a message is larger, so that each one can be
/// rolled back.
const MAX_SIZE: usize = 512 << 10;

/// The largest number of a roll-out.
const MAX_ID: u64 = u64::MAX / 2;

/// The longest time for which a host compares a module.
const MAX_HOLD: Duration = Duration::from_hours(7 * 24);

/// The modules of a fleet. It is stored as a whole, and each change replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    version: u32,
    /// The mounts for which the fleet has a module or had a roll-out.
    pub mounts: Vec<MountPlan>,
}

/// The module of a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPlan {
    /// The path of the mount.
    pub mount: String,
    /// The reference of the module of all hosts outside of a running roll-out; none for that of
    /// their own settings.
    pub module: Option<String>,
    /// The last roll-out.
    pub rollout: Rollout,
}

/// A roll-out of a module to all hosts of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// Its number, which is larger than those of all roll-outs before.
    pub id: u64,
    /// The module and its stages.
    #[serde(flatten)]
    pub new: NewRollout,
    /// The module before it, to which a roll-back returns.
    pub previous: Option<String>,
    /// How far it is.
    pub phase: Phase,
    /// Whether it stays in its stage until it is resumed. Failures roll it back all the same.
    pub is_paused: bool,
}

/// A roll-out to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRollout {
    /// The reference of the module, with its digest.
    pub module: String,
    /// The stages.
    pub stages: Stages,
    /// The time for which each host compares the responses of the module with those of the active
    /// one, on the requests of its clients, before it activates it.
    #[serde(rename = "hold_millis", with = "millis")]
    pub hold: Duration,
    /// The number of requests that each host compares at least, and that it runs the module for
    /// before the next stage.
    pub min_requests: u64,
    /// The maximum processor time of the module, to that of the active one on the same requests.
    pub max_slowdown: NonZeroU32,
    /// The changes of responses that are expected, in TOML.
    pub expected: String,
}

/// How far a roll-out is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// The hosts of the fleet are being counted.
    Counting,
    /// A stage.
    Stage {
        /// Its place among the stages, from 0.
        stage: usize,
        /// The place of its last host, in the order of the roll-out.
        last: u64,
    },
    /// The module is that of all hosts.
    Completed,
    /// No host runs the module any more.
    RolledBack {
        /// The host on which it failed; none for the request of an operator.
        host: Option<String>,
        /// The reason.
        reason: String,
    },
}

/// A plan that is not valid, or a change that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A value is out of its bounds.
    #[error("{what}: {problem}")]
    Bounds {
        /// The value.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// A roll-out is in progress.
    #[error(
        "mount {mount}: roll-out {id} of {module} is in progress; wait for its end, or roll it back"
    )]
    InProgress {
        /// The path of the mount.
        mount: String,
        /// The number of the roll-out.
        id: u64,
        /// The reference of its module.
        module: String,
    },
    /// The mount has no roll-out that can be changed.
    #[error("mount {mount}: {problem}")]
    NoRollout {
        /// The path of the mount.
        mount: String,
        /// The problem, and the remedy.
        problem: &'static str,
    },
}

impl Plan {
    /// Creates the plan of a fleet without modules of its own.
    pub(crate) fn new() -> Self {
        Self { version: VERSION, mounts: Vec::new() }
    }

    /// Returns the plan of a mount.
    #[must_use]
    pub fn mount(&self, path: &str) -> Option<&MountPlan> {
        self.mounts.iter().find(|mount| mount.mount == path)
    }

    /// Returns whether a roll-out is in progress.
    pub(crate) fn is_in_progress(&self) -> bool {
        self.mounts.iter().any(|mount| mount.rollout.is_in_progress())
    }

    /// Begins a roll-out, and returns its number.
    pub(crate) fn deploy(&mut self, mount: &str, new: NewRollout) -> Result<u64, PlanError> {
        let id = self.mounts.iter().map(|mount| mount.rollout.id).max().unwrap_or(0) + 1;
        let rollout = Rollout { id, new, previous: None, phase: Phase::Counting, is_paused: false };
        match self.mounts.iter_mut().find(|plan| plan.mount == mount) {
            Some(plan) if plan.rollout.is_in_progress() => {
                let Rollout { id, new, .. } = &plan.rollout;
                let (mount, module) = (plan.mount.clone(), new.module.clone());
                return Err(PlanError::InProgress { mount, id: *id, module });
            }
            Some(plan) => {
                plan.rollout = Rollout { previous: plan.module.clone(), ..rollout };
            }
            None => {
                self.mounts.push(MountPlan { mount: mount.to_owned(), module: None, rollout });
            }
        }
        self.check()?;
        if self.encode().len() > MAX_SIZE {
            let problem = format!("it is larger than {MAX_SIZE} bytes; declare fewer changes");
            return Err(PlanError::Bounds { what: "plan", problem });
        }
        Ok(id)
    }

    /// Rolls back the roll-out of a mount, in progress or completed.
    pub(crate) fn roll_back(
        &mut self,
        mount: &str,
        host: Option<String>,
        reason: &str,
    ) -> Result<(), PlanError> {
        let plan = self.mounts.iter_mut().find(|plan| plan.mount == mount);
        let mount = mount.to_owned();
        let problem = "the fleet has no module for it; deploy one";
        let plan = plan.ok_or(PlanError::NoRollout { mount: mount.clone(), problem })?;
        if matches!(plan.rollout.phase, Phase::RolledBack { .. }) {
            let problem = "its last roll-out is rolled back already; deploy another module";
            return Err(PlanError::NoRollout { mount, problem });
        }
        let reason = truncated(reason, MAX_REASON);
        let host = host.map(|host| truncated(&host, MAX_NAME));
        plan.rollout.phase = Phase::RolledBack { host, reason };
        plan.module.clone_from(&plan.rollout.previous);
        Ok(())
    }

    /// Pauses the roll-out of a mount, or resumes it.
    pub(crate) fn set_paused(&mut self, mount: &str, is_paused: bool) -> Result<(), PlanError> {
        let plan = self.mounts.iter_mut().find(|plan| plan.mount == mount);
        let plan = plan.filter(|plan| plan.rollout.is_in_progress()).ok_or_else(|| {
            let problem = "no roll-out is in progress; `fleet status` shows the last one";
            PlanError::NoRollout { mount: mount.to_owned(), problem }
        })?;
        plan.rollout.is_paused = is_paused;
        Ok(())
    }

    fn check(&self) -> Result<(), PlanError> {
        let bounds = |what, problem: String| Err(PlanError::Bounds { what, problem });
        if self.mounts.len() > MAX_MOUNTS {
            return bounds("mounts", format!("there are more than {MAX_MOUNTS}"));
        }
        for (place, MountPlan { mount, module, rollout }) in self.mounts.iter().enumerate() {
            if self.mounts[..place].iter().any(|before| before.mount == *mount) {
                return bounds("mount", format!("{mount} occurs twice"));
            }
            let is_bounded = match &rollout.phase {
                Phase::Counting | Phase::Completed => true,
                Phase::Stage { stage, .. } => *stage < rollout.new.stages.as_slice().len(),
                Phase::RolledBack { host, reason } => {
                    let host = host.as_deref().unwrap_or_default();
                    host.len() <= MAX_NAME && reason.len() <= MAX_REASON
                }
            };
            if !is_bounded || rollout.id > MAX_ID {
                return bounds("roll-out", format!("{} is not valid", rollout.id));
            }
            if !mount.starts_with('/') || mount.len() > MAX_PATH {
                let problem = format!(
                    "{:?} is not a path of at most {MAX_PATH} bytes",
                    truncated(mount, MAX_PATH)
                );
                return bounds("mount", problem);
            }
            let references = module.iter().chain(&rollout.previous).chain([&rollout.new.module]);
            for reference in references {
                if reference.len() > MAX_REFERENCE || !reference.contains("@sha256:") {
                    let shown = truncated(reference, MAX_REFERENCE);
                    let problem = format!(
                        "{shown:?} has no digest; expected one such as oci://REGISTRY/REPOSITORY@sha256:DIGEST"
                    );
                    return bounds("module", problem);
                }
            }
            let NewRollout { hold, expected, .. } = &rollout.new;
            if hold.is_zero() || *hold > MAX_HOLD {
                let problem =
                    format!("{hold:?} is out of range; expected more than 0 and at most 7days");
                return bounds("hold", problem);
            }
            if expected.len() > MAX_EXPECTED {
                let problem = format!("they are longer than {MAX_EXPECTED} bytes; declare fewer");
                return bounds("expected changes", problem);
            }
        }
        Ok(())
    }
}

impl Message for Plan {
    fn problem(&self) -> Option<String> {
        self.check().err().map(|error| error.to_string())
    }
}

impl MountPlan {
    /// Returns the reference of the module that a host is to run; none for that of its own
    /// settings.
    #[must_use]
    pub fn module_of(&self, host: &str) -> Option<&str> {
        if self.rollout.includes(host) {
            Some(&self.rollout.new.module)
        } else {
            self.module.as_deref()
        }
    }
}

impl Rollout {
    /// Returns whether it is in progress.
    #[must_use]
    pub fn is_in_progress(&self) -> bool {
        matches!(self.phase, Phase::Counting | Phase::Stage { .. })
    }

    /// Returns whether a host belongs to the present stage.
    #[must_use]
    pub fn includes(&self, host: &str) -> bool {
        match self.phase {
            Phase::Stage { last, .. } => self.place(host) <= last,
            _ => false,
        }
    }

    /// Returns the place of a host in the order of this roll-out. Others have other orders, so that
    /// the first stages are not always on the same hosts.
    pub(crate) fn place(&self, host: &str) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.id.to_be_bytes());
        hasher.update(host.as_bytes());
        let mut place = [0; 8];
        place.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_be_bytes(place)
    }

    /// Returns the phase of a stage, among hosts with these names. It has all hosts of the stage
    /// before.
    pub(crate) fn stage<'a>(
        &self,
        stage: usize,
        hosts: impl Iterator<Item = &'a str>,
    ) -> Option<Phase> {
        let stages = self.new.stages.as_slice();
        if stage + 1 == stages.len() {
            return Some(Phase::Stage { stage, last: u64::MAX });
        }
        let mut places: Vec<_> = hosts.map(|host| self.place(host)).collect();
        places.sort_unstable();
        let hosts = stages.get(stage)?.hosts(places.len());
        let mut last = *places.get(hosts.checked_sub(1)?)?;
        if let Phase::Stage { last: before, .. } = self.phase {
            last = last.max(before);
        }
        Some(Phase::Stage { stage, last })
    }
}

/// Durations in milliseconds.
mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Returns the beginning of a text, of at most this number of bytes.
pub(super) fn truncated(text: &str, max: usize) -> String {
    text[..text.floor_char_boundary(max)].to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{NewRollout, Phase, Plan, PlanError};
    use crate::message::Message;
    use std::num::NonZeroU32;
    use std::time::Duration;

    pub(crate) fn module(number: u8) -> String {
        format!("oci://localhost/module@sha256:{number}")
    }

    pub(crate) fn new_rollout(number: u8) -> NewRollout {
        NewRollout {
            module: module(number),
            stages: "1,10%,all".parse().unwrap(),
            hold: Duration::from_secs(1),
            min_requests: 1,
            max_slowdown: NonZeroU32::MIN,
            expected: String::new(),
        }
    }

    #[test]
    fn a_roll_back_returns_to_the_module_before() {
        let mut plan = Plan::new();
        assert_eq!(plan.deploy("/", new_rollout(1)), Ok(1));
        let error = plan.deploy("/", new_rollout(2)).unwrap_err();
        assert!(matches!(error, PlanError::InProgress { id: 1, .. }), "{error}");
        // Another mount has roll-outs of its own.
        assert_eq!(plan.deploy("/ext/a", new_rollout(2)), Ok(2));
        plan.mounts[0].rollout.phase = Phase::Completed;
        plan.mounts[0].module = Some(module(1));
        assert_eq!(plan.deploy("/", new_rollout(3)), Ok(3));
        assert_eq!(plan.mounts[0].module_of("a"), Some(&*module(1)));
        plan.roll_back("/", Some("a".to_owned()), &"é".repeat(1000)).unwrap();
        assert_eq!(plan.mounts[0].module, Some(module(1)));
        let error = plan.roll_back("/", None, "again").unwrap_err().to_string();
        assert!(error.contains("deploy another module"), "{error}");
        plan.roll_back("/ext/a", None, "asked").unwrap();
        assert_eq!(plan.mount("/ext/a").unwrap().module, None);
        assert_eq!(Plan::decode(&plan.encode()).unwrap(), plan);
        assert!(plan.set_paused("/", true).is_err());
        assert!(plan.roll_back("/ext/b", None, "").is_err());
    }

    #[test]
    fn the_stages_of_a_rollout_are_on_more_and_more_hosts() {
        let mut plan = Plan::new();
        plan.deploy("/", new_rollout(1)).unwrap();
        let hosts: Vec<_> = (0..50).map(|host| format!("host-{host}")).collect();
        let rollout = &mut plan.mounts[0].rollout;
        let mut before = Vec::new();
        for (stage, count) in [1, 5, 50].into_iter().enumerate() {
            rollout.phase = rollout.stage(stage, hosts.iter().map(|host| &**host)).unwrap();
            let included: Vec<_> =
                hosts.iter().filter(|host| rollout.includes(host)).cloned().collect();
            assert_eq!(included.len(), count);
            assert!(before.iter().all(|host| included.contains(host)));
            before = included;
        }
        assert_eq!(rollout.stage(0, std::iter::empty()), None);
        assert!(rollout.includes("a host that joins later"));
    }

    #[test]
    fn plans_out_of_bounds_are_rejected() {
        type Change = fn(&mut Plan);
        let reject = |change: Change| {
            let mut plan = Plan::new();
            plan.deploy("/", new_rollout(1)).unwrap();
            change(&mut plan);
            Plan::decode(&plan.encode()).unwrap_err()
        };
        let changes: [(&str, Change); 10] = [
            ("mount: ", |plan| "x".clone_into(&mut plan.mounts[0].mount)),
            ("module: ", |plan| plan.mounts[0].module = Some("oci://a/b:latest".to_owned())),
            ("hold: ", |plan| plan.mounts[0].rollout.new.hold = Duration::ZERO),
            ("expected changes: ", |plan| {
                plan.mounts[0].rollout.new.expected = "#".repeat((16 << 10) + 1);
            }),
            ("mounts: ", |plan| plan.mounts = vec![plan.mounts[0].clone(); 65]),
            ("mount: ", |plan| plan.mounts = vec![plan.mounts[0].clone(); 2]),
            ("roll-out: ", |plan| plan.mounts[0].rollout.id = u64::MAX),
            ("roll-out: ", |plan| {
                plan.mounts[0].rollout.phase = Phase::Stage { stage: 3, last: 0 };
            }),
            ("roll-out: ", |plan| {
                let reason = "a".repeat(2000);
                plan.mounts[0].rollout.phase = Phase::RolledBack { host: None, reason };
            }),
            ("version", |plan| plan.version += 1),
        ];
        for (problem, change) in changes {
            let error = reject(change).to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(Plan::decode(b"").is_err());
    }
}
