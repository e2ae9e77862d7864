//! The bundled modules with which modules for the API are compared.

use std::fmt::{self, Debug, Formatter};

use relayer_rest_conformance::{Dialect, Reference};
use relayer_rest_sandbox::{Digest, Engine, Grants, LoadError, Module};
use tokio::sync::OnceCell;

/// The bundled modules on an engine. Each is loaded when it is first needed, and kept.
pub struct References {
    engine: Engine,
    v0_7: OnceCell<Module>,
    v1_13: OnceCell<Module>,
}

impl References {
    /// Creates references that run on this engine, independently of its grants.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        let engine = engine.with_grants(Grants::all());
        Self { engine, v0_7: OnceCell::new(), v1_13: OnceCell::new() }
    }

    /// Returns the reference for modules that must speak a dialect. If one of the `loaded`
    /// modules is the bundled one, it is not compiled again. Otherwise, the first call
    /// takes some tens of milliseconds, on the calling thread.
    pub async fn get(
        &self,
        dialect: Dialect,
        loaded: &[&Module],
    ) -> Result<Reference<'_>, LoadError> {
        let load = async || {
            let component = dialect.component();
            let digest = Digest::new(component);
            match loaded.iter().find(|module| module.digest() == digest) {
                // Its counters are separate from those of clients' requests.
                Some(module) => Ok(Module::clone(module).afresh()),
                None => Module::from_bytes(&self.engine, "bundled", component),
            }
        };
        Ok(match dialect {
            Dialect::V0_7 => Reference::V0_7(self.v0_7.get_or_try_init(load).await?),
            Dialect::V1_13 => Reference::V1_13(self.v1_13.get_or_try_init(load).await?),
            Dialect::Any => Reference::Any,
        })
    }
}

impl Debug for References {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("References").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use relayer_rest_conformance::{Dialect, Reference, probe};
    use relayer_rest_sandbox::{Engine, Grants, Limits, Module};

    use super::References;

    #[tokio::test]
    async fn bundled_modules_are_loaded_once() {
        let engine = Engine::new(&Limits::default()).unwrap().with_grants(Grants::none());
        let references = References::new(engine);
        let mut modules = Vec::new();
        for _ in 0..2 {
            match references.get(Dialect::V0_7, &[]).await.unwrap() {
                Reference::V0_7(module) => modules.push(std::ptr::from_ref(module)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(modules[0], modules[1]);
        assert!(matches!(references.get(Dialect::Any, &[]).await, Ok(Reference::Any)));
    }

    #[tokio::test]
    async fn a_loaded_bundled_module_is_the_reference_with_counters_of_its_own() {
        let engine = Engine::new(&Limits::default()).unwrap();
        let active = Module::embedded(&engine).unwrap().named("active");
        let references = References::new(engine);
        let reference = references.get(Dialect::V0_7, &[&active]).await.unwrap();
        let verdict = probe(&active, reference, None).await.unwrap();
        assert!(verdict.passes(), "{verdict:?}");
        let Reference::V0_7(reference) = reference else { panic!("another dialect") };
        assert_eq!(reference.name(), "active", "it was not compiled again");
        assert!(active.runs() > 0);
        assert_eq!(reference.runs(), 0, "its responses are those that the module just gave");
    }
}
