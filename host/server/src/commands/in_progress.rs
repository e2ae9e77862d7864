//! One command at a time for each chain.

use std::sync::{Arc, Mutex, PoisonError};

use relayer_rest_state::Command;

/// The commands in progress.
#[derive(Default)]
pub(super) struct InProgress(Mutex<Vec<Command>>);

/// Commands in progress, until this is dropped.
pub(super) struct Slot {
    in_progress: Arc<InProgress>,
    commands: Vec<Command>,
}

impl InProgress {
    /// Begins commands, unless a command in progress affects a chain of theirs.
    pub(super) fn begin(self: &Arc<Self>, commands: &[Command]) -> Option<Slot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let conflicts = |command: &Command| known.iter().any(|other| command.conflicts_with(other));
        if commands.iter().any(conflicts) {
            return None;
        }
        known.extend_from_slice(commands);
        Some(Slot { in_progress: Arc::clone(self), commands: commands.to_vec() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut known = self.in_progress.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|command| !self.commands.contains(command));
    }
}

#[cfg(test)]
mod tests {
    use super::InProgress;
    use relayer_rest_state::Command;
    use std::sync::Arc;

    #[test]
    fn a_chain_has_one_command_at_a_time() {
        let clear = |chain: Option<&str>| [Command::ClearPackets { chain: chain.map(Into::into) }];
        let in_progress = Arc::new(InProgress::default());
        let a = in_progress.begin(&clear(Some("a"))).unwrap();
        assert!(in_progress.begin(&clear(Some("a"))).is_none());
        assert!(in_progress.begin(&clear(None)).is_none());
        let b = in_progress.begin(&clear(Some("b"))).unwrap();
        drop(a);
        assert!(in_progress.begin(&clear(None)).is_none());
        drop(b);
        let all = in_progress.begin(&clear(None)).unwrap();
        assert!(in_progress.begin(&clear(Some("a"))).is_none());
        drop(all);
        assert!(in_progress.begin(&clear(Some("a"))).is_some());
    }
}
