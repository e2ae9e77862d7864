//! Deploys the modules that the settings name: at the start, when the settings are
//! reloaded, and when a watched file changes.
//!
//! | file | job |
//! |---|---|
//! | `first_module.rs` | loads the first module of a mount, also while the server serves |
//! | `modules.rs` | loads all modules, and reloads the changed ones, all or none |
//! | `mount_spec.rs` | the specification of a mount, from the settings |
//! | `relayer_dialect.rs` | serves the API in the dialect of the relayer |
//! | `watched_module.rs` | swaps a module when its file changes |
//! | `fleet_modules.rs` | deploys the modules of a fleet |
//! | `error.rs` | the reasons why modules cannot be loaded or reloaded |

mod error;
mod first_module;
#[cfg(feature = "fleet")]
mod fleet_modules;
mod modules;
mod mount_spec;
mod relayer_dialect;
mod watched_module;

use serde::{Deserialize, Serialize};

pub use error::ReloadError;
#[cfg(feature = "fleet")]
pub use fleet_modules::FleetModules;
pub use modules::{ModuleContext, Modules};
pub use mount_spec::MountSpec;
pub use relayer_dialect::follow as follow_dialect;

/// A completed reload of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The paths of unchanged mounts. A module that was swapped in stays.
    pub kept: Vec<String>,
    /// The paths of the mounts whose settings or file have changed.
    pub replaced: Vec<String>,
    /// The paths of new mounts.
    pub added: Vec<String>,
    /// The paths of the mounts that were removed.
    pub removed: Vec<String>,
    /// The files that are invalid, with the problem; their previous content stays in effect.
    pub failures: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}
