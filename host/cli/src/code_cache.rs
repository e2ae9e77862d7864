//! The folder of the code cache.

use relayer_rest_sandbox::{CodeCache, CodeCacheError};
use relayer_rest_server::config::Place;

/// Opens the folder. Returns an error if a given folder is unsuitable, and no cache if the
/// default folder is.
pub(super) fn open(place: &Place) -> Result<Option<CodeCache>, CodeCacheError> {
    match place {
        Place::Disabled => Ok(None),
        Place::At(folder) => CodeCache::open(folder).map(Some),
        Place::Default => CodeCache::from_env(),
    }
}
