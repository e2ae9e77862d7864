//! The subjects of a fleet, and its streams.
//!
//! | subject | messages |
//! |---|---|
//! | `relayer.FLEET.lease` | stored: the writer |
//! | `relayer.FLEET.index` | stored: the parts of the newest generation |
//! | `relayer.FLEET.set.part.NAME` | stored: a part |
//! | `relayer.FLEET.set.commit` | stored: the newest generation |
//! | `relayer.FLEET.new.…` | each part and commit, republished when it is stored |
//! | `relayer.FLEET.alive` | the sign of life of the writer |
//! | `relayer.FLEET.clock` | requests for the clock of the writer |
//! | `relayer.FLEET.plan` | stored in a stream of its own: the modules of the fleet |
//! | `relayer.FLEET.planned` | each plan, republished when it is stored |
//! | `relayer.FLEET.call` | requests for the reports of hosts |
//! | `relayer.FLEET.report` | the reports of hosts on the modules of the fleet |

use crate::part::PartName;
use crate::writer::Stored;

/// The subjects of a fleet.
#[derive(Debug, Clone)]
pub(crate) struct Subjects {
    fleet: String,
}

/// A message that the stream republishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Republished {
    Part(PartName),
    Commit,
}

impl Subjects {
    pub(crate) fn new(fleet: &str) -> Self {
        Self { fleet: fleet.to_owned() }
    }

    /// Returns the name of the stream.
    pub(crate) fn stream(&self) -> String {
        format!("RELAYER_{}", self.fleet)
    }

    pub(crate) fn lease(&self) -> String {
        self.subject("lease")
    }

    pub(crate) fn index(&self) -> String {
        self.subject("index")
    }

    pub(crate) fn alive(&self) -> String {
        self.subject("alive")
    }

    pub(crate) fn clock(&self) -> String {
        self.subject("clock")
    }

    /// Returns the name of the stream of plans. No stream of a state has it, because names of
    /// fleets follow an underscore there.
    pub(crate) fn plan_stream(&self) -> String {
        format!("RELAYER-PLAN_{}", self.fleet)
    }

    pub(crate) fn plan(&self) -> String {
        self.subject("plan")
    }

    pub(crate) fn planned(&self) -> String {
        self.subject("planned")
    }

    pub(crate) fn call(&self) -> String {
        self.subject("call")
    }

    pub(crate) fn report(&self) -> String {
        self.subject("report")
    }

    pub(crate) fn part(&self, name: &PartName) -> String {
        self.subject(&format!("set.part.{name}"))
    }

    /// Returns the subject under which a message is stored.
    pub(crate) fn stored(&self, message: &Stored) -> String {
        match message {
            Stored::Lease(_) => self.lease(),
            Stored::Index(_) => self.index(),
            Stored::Part(name, _) => self.part(name),
            Stored::Commit(_) => self.subject("set.commit"),
        }
    }

    /// Returns the stored subjects.
    pub(crate) fn all_stored(&self) -> Vec<String> {
        vec![self.lease(), self.index(), self.subject("set.>")]
    }

    /// Returns the subjects that are republished, and the ones under which they are.
    pub(crate) fn republished(&self) -> (String, String) {
        (self.subject("set.>"), self.subject("new.>"))
    }

    /// Returns the message that is republished under this subject.
    pub(crate) fn parse_republished(&self, subject: &str) -> Option<Republished> {
        match self.relative(subject)?.strip_prefix("new.")? {
            "commit" => Some(Republished::Commit),
            other => Some(Republished::Part(other.strip_prefix("part.")?.parse().ok()?)),
        }
    }

    /// Returns the part that is stored under this subject.
    pub(crate) fn parse_part(&self, subject: &str) -> Option<PartName> {
        self.relative(subject)?.strip_prefix("set.part.")?.parse().ok()
    }

    fn relative<'a>(&self, subject: &'a str) -> Option<&'a str> {
        subject.strip_prefix("relayer.")?.strip_prefix(&*self.fleet)?.strip_prefix('.')
    }

    fn subject(&self, rest: &str) -> String {
        format!("relayer.{}.{rest}", self.fleet)
    }
}

#[cfg(test)]
mod tests {
    use super::{Republished, Subjects};
    use crate::writer::Stored;
    use bytes::Bytes;

    #[test]
    fn a_stored_message_is_found_by_its_subject() {
        let subjects = Subjects::new("f");
        let name = "workers.001f".parse().unwrap();
        let stored = subjects.part(&name);
        assert_eq!(stored, "relayer.f.set.part.workers.001f");
        assert_eq!(subjects.parse_part(&stored), Some(name.clone()));
        let (source, destination) = subjects.republished();
        let [source, destination] =
            [source, destination].map(|s| s.trim_end_matches('>').to_owned());
        let republished = stored.replace(&source, &destination);
        assert_eq!(subjects.parse_republished(&republished), Some(Republished::Part(name)));
        let commit = subjects.stored(&Stored::Commit(Bytes::new()));
        let republished = commit.replace(&source, &destination);
        assert_eq!(subjects.parse_republished(&republished), Some(Republished::Commit));
    }

    #[test]
    fn other_subjects_are_not_messages() {
        let subjects = Subjects::new("f");
        for subject in [
            "",
            "relayer.f",
            "relayer.g.new.commit",
            "relayer.ff.new.commit",
            "relayer.f.new.part.",
            "relayer.f.new.x",
            "relayer.f.new.part.A",
        ] {
            assert_eq!(subjects.parse_republished(subject), None, "{subject}");
        }
    }
}
