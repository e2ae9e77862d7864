//! A component as its author publishes it: encoded, with its imports and exports.

use std::borrow::Cow;

use super::componentize;
use super::load_error::LoadError;
use super::world::World;

/// The worlds that the host runs, by the start of the name of their handler.
const WORLDS: [(&str, &str); 2] = [
    ("relayer:rest/handler@", "relayer:rest/api-module"),
    ("wasi:http/incoming-handler@", "wasi:http/proxy"),
];

/// A component with the names of its imports and exports, which was not compiled.
#[derive(Debug, Clone)]
pub struct PublishedComponent<'a> {
    /// The component; the encoded one for a core module that names its world.
    pub bytes: Cow<'a, [u8]>,
    /// The names of its imports, such as `relayer:rest/state@0.1.0`.
    pub imports: Vec<String>,
    /// The names of its exports.
    pub exports: Vec<String>,
}

impl<'a> PublishedComponent<'a> {
    /// Reads a component, or encodes a core module. The code is not validated.
    ///
    /// # Errors
    /// Returns an error if the bytes are neither.
    pub fn read(name: &str, bytes: &'a [u8]) -> Result<Self, LoadError> {
        let bytes = componentize::component(name, bytes)?;
        let world = World::from_component(&bytes).ok_or_else(|| LoadError::Invalid {
            name: name.to_owned(),
            reason: "its imports and exports cannot be read".to_owned(),
        })?;
        let imports = world.imports.into_iter().map(|import| import.name).collect();
        Ok(Self { bytes, imports, exports: world.exports })
    }

    /// Returns the world of the component with its version, if the host can run it.
    #[must_use]
    pub fn world(&self) -> Option<String> {
        WORLDS.iter().find_map(|(handler, world)| {
            let versions = self.exports.iter().filter_map(|export| export.strip_prefix(handler));
            versions.map(|version| format!("{world}@{version}")).next()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::PublishedComponent;
    use relayer_rest_modules::DEFAULT_MODULE;

    #[test]
    fn the_world_is_read_from_the_component() {
        let module = PublishedComponent::read("x", DEFAULT_MODULE).unwrap();
        assert!(module.world().unwrap().starts_with("relayer:rest/api-module@"));
        assert!(module.imports.iter().any(|name| name.starts_with("relayer:rest/chains@")));
        let error = PublishedComponent::read("x", b"\0asm\x0d\0\x01\0\xff").unwrap_err();
        assert!(error.to_string().starts_with("module x: not a valid component"), "{error}");
        let error = PublishedComponent::read("x", b"text").unwrap_err();
        assert!(error.to_string().starts_with("module x: not WebAssembly"), "{error}");
    }
}
