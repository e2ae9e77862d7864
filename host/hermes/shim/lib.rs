//! Takes the place of `ibc-relayer-rest` in a build of Hermes.

pub use relayer_rest_hermes::spawn;
