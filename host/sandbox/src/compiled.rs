//! Obtains compiled code: from the code cache, or from the compiler.
//!
//! A running compilation cannot be stopped, and a component of some hundred kilobytes can
//! be made to take gigabytes and minutes. Components that are not bundled with the host
//! are therefore compiled in a separate process, with or without a code cache: a process
//! can be stopped, and affects no other one when it runs out of memory. It returns the
//! code over a pipe.

use bytesize::ByteSize;

use super::artefact::Artefact;
use super::code_cache::{CodeCache, Key};
use super::engine::Engine;
use super::load_error::LoadError;

/// The entry of an input in the engine's code cache, if the engine has one.
struct CachedCode<'a>(Option<(&'a CodeCache, Key)>);

/// Returns the code of a component that can be trusted to compile within
/// bounds. Without an entry in the code cache, it is compiled on this thread.
pub(super) fn compile_here(
    engine: &Engine,
    name: &str,
    input: &[u8],
) -> Result<Artefact, LoadError> {
    let entry = CachedCode::new(engine, input);
    match entry.get() {
        Some(artefact) => Ok(artefact),
        None => Ok(entry.put(Artefact::compile(&engine.wasmtime, name, input)?)),
    }
}

/// Returns the code of any component. Without an entry in the code cache, the engine's
/// compiler compiles it in at most this much memory. Dropping the future stops it.
pub(super) async fn compile_apart(
    engine: &Engine,
    name: &str,
    input: &[u8],
    memory: ByteSize,
) -> Result<Artefact, LoadError> {
    let compiler = engine.options.compiler.as_ref();
    let Some(compiler) = compiler.filter(|_| !engine.options.quick_compilation) else {
        return compile_here(engine, name, input);
    };
    let entry = CachedCode::new(engine, input);
    match entry.get() {
        Some(artefact) => Ok(artefact),
        None => Ok(entry.put(compiler.compile(name, input, memory, engine.reservation).await?)),
    }
}

impl Engine {
    /// Returns whether the code cache has the code of a component, so that loading it takes no
    /// compilation.
    #[must_use]
    pub fn has_code(&self, component: &[u8]) -> bool {
        CachedCode::new(self, component).0.is_some_and(|(cache, key)| cache.contains(key))
    }
}

impl<'a> CachedCode<'a> {
    fn new(engine: &'a Engine, input: &[u8]) -> Self {
        let cache = engine.options.code_cache.as_ref();
        Self(cache.map(|cache| (cache, Key::new(&engine.wasmtime, input))))
    }

    fn get(&self) -> Option<Artefact> {
        self.0.and_then(|(cache, key)| cache.get(key))
    }

    fn put(&self, artefact: Artefact) -> Artefact {
        if let Some((cache, key)) = self.0 {
            cache.put(key, &artefact);
        }
        artefact
    }
}

#[cfg(test)]
mod tests {
    use super::LoadError;
    use crate::{Compiler, Engine, EngineOptions, Grants, Limits, Module};
    use bytesize::ByteSize;
    use relayer_rest_modules::DEFAULT_MODULE;
    use std::path::Path;

    /// Loads a module with a shell script as the compiler, and returns the error.
    async fn load(program: &str, script: &str) -> LoadError {
        let args = vec!["-c".into(), script.into()];
        let compiler = Some(Compiler::new(Path::new(program).into(), args));
        let engine = EngineOptions { compiler, ..(&Limits::default()).into() };
        let engine = Engine::with(engine).unwrap();
        let memory = ByteSize::mib(1);
        Module::from_untrusted_bytes(&engine, "m", DEFAULT_MODULE, memory).await.unwrap_err()
    }

    #[tokio::test]
    async fn the_output_of_a_compiler_is_bounded_and_complete() {
        for (script, part) in [
            // It is stopped, because its output is endless.
            ("cat /dev/zero", "the compiler failed"),
            ("cat >&2 /dev/zero", "the compiler failed"),
            ("true", "incomplete"),
            ("cat > /dev/null; head -c 100 /dev/zero", "incomplete"),
            ("echo reason >&2; exit 3", "reason (exit status: 3)"),
            ("kill -9 $$", "signal: 9"),
        ] {
            let error = load("/bin/sh", script).await;
            assert!(matches!(error, LoadError::Compiler { .. }), "{script}: {error}");
            assert!(error.to_string().contains(part), "{script}: {error}");
        }
        let error = load("/bin/sh", "cat > /dev/null; echo reason; exit 1").await;
        let LoadError::Invalid { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason, "reason");
        // Output that is not code is not executed.
        let error = load("/bin/sh", "cat > /dev/null; head -c 24 /dev/zero").await;
        assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    }

    /// Each call of this compiler is an error.
    #[tokio::test]
    async fn a_component_with_unsuitable_imports_or_exports_is_not_compiled() {
        let engine = |grants: &[&str]| {
            let compiler = Some(Compiler::new(Path::new("/nowhere/compiler").into(), Vec::new()));
            let grants = Grants::new(grants).unwrap();
            let options = EngineOptions { grants, compiler, ..(&Limits::default()).into() };
            Engine::with(options).unwrap()
        };
        let load = async |engine: &Engine, bytes: &[u8]| {
            let module = Module::from_untrusted_bytes(engine, "m", bytes, ByteSize::mib(64));
            module.await.unwrap_err()
        };
        let component = |text: &str| wat::parse_str(text).unwrap();
        let none = engine(&[]);
        let now = component(r#"(component (import "now" (func (result u64))))"#);
        let chains = r#"(component (import "relayer:rest/chains@0.1.0" (instance)))"#;
        let chains = component(chains);
        for (bytes, expected) in [
            (&*now, "forbidden imports: now (not in the contract)"),
            (&*chains, "imports without a grant: relayer:rest/chains@0.1.0"),
            (&component("(component)"), "does not export relayer:rest/handler@0.1.0"),
        ] {
            let error = load(&none, bytes).await.to_string();
            assert!(error.contains(expected), "{error}");
        }
        // A core module is not even encoded.
        let text = r#"(module (import "relayer:rest/chains@0.1.0" "ids" (func (param i32)))
            (func (export "relayer:rest/handler@0.1.0#handle")))"#;
        let core = [&*component(text), b"\0\x0f\x0ecomponent-type"].concat();
        let error = load(&none, &core).await;
        assert!(matches!(error, LoadError::NotGranted { .. }), "{error}");
        let error = load(&engine(&["chains"]), &core).await;
        assert!(matches!(error, LoadError::NoCompiler { .. }), "{error}");
    }

    #[tokio::test]
    async fn an_engine_without_its_compiler_compiles_nothing() {
        let error = load("/nowhere/compiler", "").await;
        assert!(matches!(error, LoadError::NoCompiler { .. }), "{error}");
        assert!(
            error.to_string().contains("cannot start the compiler /nowhere/compiler: No such file")
        );
    }
}
