//! Reads the world of a component, its imports and exports, from its bytes, before it is
//! compiled.

use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::Types;
use wasmparser::{Parser, Payload, ValidPayload, Validator, WasmFeatures};

/// The imports and the exports of a component, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct World {
    pub(super) imports: Vec<Import>,
    pub(super) exports: Vec<String>,
}

/// An import.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) name: String,
    /// The functions of an interface; `None` for another import, such as a single function.
    pub(super) functions: Option<Vec<String>>,
}

impl World {
    /// Reads the world of a component. Returns `None` if it is not valid: the compiler has
    /// the reason.
    ///
    /// The types are validated, but not the code, so this takes a small part of the time of
    /// a compilation.
    pub(super) fn from_component(component: &[u8]) -> Option<Self> {
        let mut validator = Validator::new_with_features(WasmFeatures::all());
        let mut names = Vec::new();
        let mut exports = Vec::new();
        let mut types = None;
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            let payload = payload.ok()?;
            match &payload {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section.clone() {
                        names.push(import.ok()?.name.name);
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section.clone() {
                        exports.push(export.ok()?.name.name.to_owned());
                    }
                }
                _ => {}
            }
            if let ValidPayload::End(ended) = validator.payload(&payload).ok()? {
                types = Some(ended);
            }
        }
        let types = types?;
        let import =
            |name: &str| Import { name: name.to_owned(), functions: functions(&types, name) };
        Some(Self { imports: names.into_iter().map(import).collect(), exports })
    }

    /// Reads the world of the component that is encoded from a core module, as far as the
    /// module's own imports and exports have it. Returns `None` if some of them do not belong
    /// to an interface: the encoder has the reason.
    pub(super) fn from_core_module(module: &[u8]) -> Option<Self> {
        let mut world = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload.ok()? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import.ok()?;
                        world.import(import.module, import.name)?;
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        // Others, such as the memory, are for the encoder.
                        if let Some((interface, _)) = export.ok()?.name.split_once('#') {
                            world.exports.push(interface.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        (!world.exports.is_empty()).then_some(world)
    }

    fn import(&mut self, interface: &str, function: &str) -> Option<()> {
        // Names such as `$root`, `env` and `[export]…` are for the encoder.
        if interface.starts_with('[') || !interface.contains(':') || !interface.contains('/') {
            return None;
        }
        // Functions of the encoder, such as `[resource-drop]…`, are not of the interface.
        let function = (!function.starts_with('[')).then(|| function.to_owned());
        let known = self.imports.iter_mut().find(|import| import.name == interface);
        match known.and_then(|import| import.functions.as_mut()) {
            Some(functions) => functions.extend(function),
            None => self.imports.push(Import {
                name: interface.to_owned(),
                functions: Some(function.into_iter().collect()),
            }),
        }
        Some(())
    }
}

/// Returns the functions of an imported interface.
fn functions(types: &Types, import: &str) -> Option<Vec<String>> {
    let ComponentEntityType::Instance(id) = types.component_item_for_import(import)?.ty else {
        return None;
    };
    let exports = types.as_ref().get(id)?.exports.iter();
    let functions = exports.filter(|(_, item)| matches!(item.ty, ComponentEntityType::Func(_)));
    Some(functions.map(|(name, _)| name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::{Import, World};

    fn import(name: &str, functions: Option<&[&str]>) -> Import {
        let functions =
            functions.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Import { name: name.to_owned(), functions }
    }

    #[test]
    fn the_world_of_a_component_is_that_of_its_outermost_level() {
        let component = wat::parse_str(
            r#"(component
                (type $t (instance (type (list u8)) (export "b" (type (eq 0)))
                    (export "f" (func (param "p" 1))) (export "g" (func))))
                (import "a:b/c@1.0.0" (instance (type $t)))
                (import "now" (func (result u64)))
                (component (import "x:y/inner" (instance)) (export "z" (instance 0)))
                (core module (import "env" "f" (func)))
                (instance $i)
                (export "a:b/d@1.0.0" (instance $i)))"#,
        );
        let world = World::from_component(&component.unwrap()).unwrap();
        let imports = [import("a:b/c@1.0.0", Some(&["f", "g"])), import("now", None)];
        assert_eq!(world.imports, imports);
        assert_eq!(world.exports, ["a:b/d@1.0.0"]);
        assert_eq!(World::from_component(b"\0asm\x0d\0\x01\0\xff"), None);
    }

    #[test]
    fn the_world_of_a_core_module_has_the_interfaces_that_it_uses() {
        let world = |text: &str| World::from_core_module(&wat::parse_str(text).unwrap());
        let module = r#"(module
            (import "a:b/c@1.0.0" "f" (func)) (import "a:b/c@1.0.0" "[resource-drop]r" (func))
            (import "a:b/d@1.0.0" "[resource-drop]r" (func)) (import "a:b/c@1.0.0" "g" (func))
            (memory (export "memory") 1) (func (export "a:b/e@1.0.0#h")))"#;
        let imports = [import("a:b/c@1.0.0", Some(&["f", "g"])), import("a:b/d@1.0.0", Some(&[]))];
        let expected = World { imports: imports.into(), exports: vec!["a:b/e@1.0.0".to_owned()] };
        assert_eq!(world(module), Some(expected));
        assert_eq!(world(r#"(module (func (export "f")))"#), None);
        assert_eq!(world(r#"(module (import "env" "f" (func)) (func (export "a#b")))"#), None);
    }
}
