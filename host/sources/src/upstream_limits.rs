//! Limits on the responses of a running relayer: the section `[upstream]`.

use bytesize::ByteSize;
use relayer_rest_common::limits;

limits! {
    /// Limits on the responses of the relayer behind `--upstream`.
    pub struct UpstreamLimits {
        body: ByteSize = "\"64MiB\"", "64KiB" to "1GiB", "Body of a response; parsing it takes up to three times as much memory";
    }
}
