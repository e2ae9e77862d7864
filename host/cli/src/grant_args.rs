//! The option that grants response headers, for `check` and `dev`.

use clap::Args;
use relayer_rest_sandbox::HeaderGrants;

use super::Failure;

#[derive(Args)]
pub(super) struct GrantArgs {
    /// Response header with effects beyond the mount that the module may set, such as
    /// service-worker-allowed; can be repeated
    #[arg(long, value_name = "NAME")]
    grant_header: Vec<String>,
}

impl GrantArgs {
    /// Returns the granted headers, if the option is given.
    pub(super) fn headers(&self) -> Result<Option<HeaderGrants>, Failure> {
        if self.grant_header.is_empty() {
            return Ok(None);
        }
        let grants = HeaderGrants::new(&self.grant_header);
        Ok(Some(grants.map_err(|error| format!("--grant-header: {error}"))?))
    }
}
