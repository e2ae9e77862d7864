//! Commands to the relayer that modules record: their permission, and their execution.
//!
//! A module only records commands. They are executed after it has responded with success,
//! and before the response is sent: if the settings allow them, the client has a token, and
//! no other command for the same chain is in progress.
//!
//! | file | job |
//! |---|---|
//! | `settings.rs` | the section `[commands]` of the settings |
//! | `in_progress.rs` | one command at a time for each chain |

mod in_progress;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use relayer_rest_common::log_rate::{LogRate, Permit};
use relayer_rest_state::{Command, CommandError, CommandExecutor, TraceContext};
use tokio::time::timeout;
use tracing::{Instrument, info, warn};

use in_progress::InProgress;
pub use settings::CommandSettings;

use crate::tokens::{TokenName, TokenRefusal, Tokens, TokensError};

/// Executes the commands that modules record.
pub struct Commands {
    policy: ArcSwap<Policy>,
    executor: Option<Arc<dyn CommandExecutor>>,
    in_progress: Arc<InProgress>,
    /// Limits the log of refused clients: strangers may cause any number of lines.
    strangers: LogRate,
}

/// The maximum number of refused clients without a token that are logged each second.
const MAX_STRANGERS: u64 = 20;

/// The permissions of clients.
struct Policy {
    clear_packets: bool,
    tokens: Tokens,
    time: Duration,
}

/// The reason why a command was not executed, or may not have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client is not known by its token.
    Client(TokenRefusal),
    /// The settings do not allow the command.
    Disabled,
    /// The request has a body, whose meaning the relayer would ignore.
    HasBody,
    /// No relayer is known that executes commands.
    NoRelayer,
    /// Another command for the chain is in progress.
    Busy,
    /// The relayer refused the command.
    Failed,
    /// The relayer did not respond in time.
    TimedOut,
}

/// A client's request for commands.
pub(crate) struct CommandRequest<'a> {
    pub(crate) id: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) has_body: bool,
    /// The trace of the request, if an observer has one.
    pub(crate) trace: Option<TraceContext>,
}

impl Commands {
    /// Creates the commands of a server with these settings, for this relayer, if it
    /// executes commands.
    ///
    /// # Errors
    /// Returns an error if the file of tokens cannot be used.
    pub fn new(
        settings: &CommandSettings,
        executor: Option<Arc<dyn CommandExecutor>>,
    ) -> Result<Self, TokensError> {
        let policy = ArcSwap::from_pointee(Policy::new(settings)?);
        if policy.load().clear_packets && executor.is_none() {
            warn!(
                hint = "start with --upstream URL",
                "commands are enabled, but there is no relayer that executes them"
            );
        }
        let strangers = LogRate::new(MAX_STRANGERS);
        Ok(Self { policy, executor, in_progress: Arc::default(), strangers })
    }

    /// Applies other settings, and reads the file of tokens again.
    ///
    /// # Errors
    /// Returns an error if the file of tokens cannot be used; then nothing changes.
    pub fn reload(&self, settings: &CommandSettings) -> Result<(), TokensError> {
        self.policy.store(Arc::new(Policy::new(settings)?));
        Ok(())
    }

    /// Removes the client's token from the headers that a module may read.
    pub(crate) fn hide_token(&self, headers: &mut HeaderMap) {
        if headers.contains_key(AUTHORIZATION) && self.policy.load().tokens.client(headers).is_ok()
        {
            headers.remove(AUTHORIZATION);
        }
    }

    /// Executes commands one after the other, until one fails. They are completed even if
    /// the returned future is dropped.
    pub(crate) async fn execute(
        &self,
        commands: &[Command],
        request: CommandRequest<'_>,
    ) -> Result<(), Refusal> {
        let CommandRequest { id, .. } = request;
        let list: Vec<_> = commands.iter().map(ToString::to_string).collect();
        let list = list.join(", ");
        let policy = self.policy.load_full();
        let mut client = None;
        let executor = self.check(&policy, &request, &mut client);
        let client = client.as_ref().map_or("", TokenName::as_str).to_owned();
        let slot = executor.and_then(|executor| {
            let slot = self.in_progress.begin(commands).ok_or(Refusal::Busy)?;
            Ok((executor, slot))
        });
        let (executor, slot) = slot.inspect_err(|outcome| {
            if !client.is_empty() || self.is_logged() {
                warn!(target: "audit", client, id, command = list, ?outcome, "command refused");
            }
        })?;
        let commands = commands.to_vec();
        let (time, id, trace) = (policy.time, id.to_owned(), request.trace.clone());
        let execution = async move {
            let _slot = slot;
            for command in &commands {
                let result = timeout(time, executor.execute(command, trace.as_ref())).await;
                let error = match result.unwrap_or(Err(CommandError::TimedOut)) {
                    Ok(()) => {
                        info!(target: "audit", client, id, %command, outcome = "executed", "command executed");
                        continue;
                    }
                    Err(error) => error,
                };
                warn!(target: "audit", client, id, %command, outcome = %error, "command failed");
                return Err(match error {
                    CommandError::Refused(_) => Refusal::Failed,
                    CommandError::TimedOut => Refusal::TimedOut,
                });
            }
            Ok(())
        };
        let execution = tokio::spawn(execution.in_current_span());
        execution.await.unwrap_or(Err(Refusal::Failed))
    }

    /// Returns whether one more refused client without a token may be logged now.
    fn is_logged(&self) -> bool {
        match self.strangers.acquire(1) {
            Permit::Granted(omitted) => {
                if omitted > 0 {
                    warn!(target: "audit", omitted, "refused commands omitted");
                }
                true
            }
            Permit::LimitReached => {
                warn!(target: "audit", limit = MAX_STRANGERS, "log of refused commands limited");
                false
            }
            Permit::Denied => false,
        }
    }

    /// Checks a request, sets its client if that is known, and returns the relayer.
    fn check(
        &self,
        policy: &Policy,
        request: &CommandRequest<'_>,
        client: &mut Option<TokenName>,
    ) -> Result<Arc<dyn CommandExecutor>, Refusal> {
        if !policy.clear_packets {
            return Err(Refusal::Disabled);
        }
        *client = Some(policy.tokens.client(request.headers).map_err(Refusal::Client)?);
        if request.has_body {
            return Err(Refusal::HasBody);
        }
        self.executor.clone().ok_or(Refusal::NoRelayer)
    }
}

impl Policy {
    fn new(settings: &CommandSettings) -> Result<Self, TokensError> {
        let tokens = settings.read_tokens()?;
        if settings.clear_packets && tokens.is_empty() {
            warn!(
                hint = "set commands.token-file to a file with a line NAME TOKEN for each client",
                "commands are enabled, but no client has a token"
            );
        }
        Ok(Self { clear_packets: settings.clear_packets, tokens, time: settings.time })
    }
}

#[cfg(test)]
mod tests {
    use super::{AUTHORIZATION, CommandSettings, Commands, HeaderMap};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn strangers_do_not_flood_the_log() {
        let commands = Commands::new(&CommandSettings::default(), None).unwrap();
        assert!(commands.is_logged());
        let logged = (0..100_000).filter(|_| commands.is_logged()).count();
        assert!(logged < 50_000, "{logged}");
    }

    #[test]
    fn modules_do_not_get_tokens_of_commands() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        fs::write(&file, "ops 0123456789abcdef").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let token_file = Some(file);
        let settings = CommandSettings { clear_packets: true, token_file, ..Default::default() };
        let commands = Commands::new(&settings, None).unwrap();
        let is_hidden = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            commands.hide_token(&mut headers);
            headers.is_empty()
        };
        assert!(is_hidden("Bearer 0123456789abcdef"));
        // It may be for the module.
        assert!(!is_hidden("Bearer fedcba9876543210") && !is_hidden("Basic 0123456789abcdef"));
    }
}
