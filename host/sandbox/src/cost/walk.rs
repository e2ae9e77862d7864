//! Counts how often a component instantiates each of its modules: nested components are
//! instantiated once or many times, regardless of the place of their definition.

use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentExternalKind, ComponentInstance,
    ComponentOuterAliasKind, ComponentTypeRef, Instance, Parser, Payload,
};

use super::super::engine_config::MAX_CORE_INSTANCES;
use super::section::CoreModule;
use super::{InstanceCost, Kind};

/// An instance of a component, with its table of handles.
const COMPONENT_INSTANCE: u64 = 512;
/// A canonical function or a resource type, with its trampoline.
const CANONICAL: u64 = 160;
/// An adapter between two components: a core module that the engine generates.
const ADAPTER: u64 = 1024;
const ADAPTER_STEPS: u64 = 20;

/// A module or a component that can be instantiated; [`None`] if it is an argument of the
/// component that is being read, and therefore unknown.
type KnownCost = Option<TotalCost>;

/// The cost of a module, or of a component with everything that it instantiates.
#[derive(Debug, Default, Clone, Copy)]
struct TotalCost {
    instance: InstanceCost,
    /// The numbers of functions that it exports to other components, and that it calls.
    lifted: u64,
    lowered: u64,
    /// The number of unknown modules and components that it instantiates.
    unknown: u64,
}

/// A component while it is being read.
#[derive(Default)]
struct Scope {
    modules: Vec<KnownCost>,
    components: Vec<KnownCost>,
    cost: TotalCost,
}

/// Reads the cost of an instance from a valid component.
pub(super) fn cost(component: &[u8]) -> InstanceCost {
    let mut walk = Walk::default();
    for payload in Parser::new(0).parse_all(component) {
        let Ok(payload) = payload else {
            // A component that can be compiled can be read; if not, its rest may contain
            // anything.
            walk.largest.has_start = true;
            walk.root.unknown += 1;
            break;
        };
        walk.take(payload);
    }
    walk.finish()
}

#[derive(Default)]
struct Walk {
    /// The components that are being read, the innermost last.
    scopes: Vec<Scope>,
    /// The core module that is being read.
    module: Option<CoreModule>,
    /// The maximum of all core modules in each respect.
    largest: InstanceCost,
    root: TotalCost,
}

impl Walk {
    fn take(&mut self, payload: Payload<'_>) {
        if let Some(module) = &mut self.module {
            if matches!(payload, Payload::End(_)) {
                self.end_module();
            } else {
                module.add(payload);
            }
            return;
        }
        match payload {
            Payload::Version { .. } if self.scopes.is_empty() => self.open(),
            Payload::ModuleSection { .. } => self.module = Some(CoreModule::new()),
            Payload::ComponentSection { .. } => self.open(),
            Payload::End(_) => self.end_component(),
            payload => self.add(payload),
        }
    }

    fn open(&mut self) {
        let mut scope = Scope::default();
        scope.cost.instance.add_host(Kind::Component, 1, COMPONENT_INSTANCE);
        self.scopes.push(scope);
    }

    fn end_module(&mut self) {
        let Some(module) = self.module.take() else { return };
        let instance = module.finish();
        self.largest = self.largest.max(&instance);
        if let Some(scope) = self.scopes.last_mut() {
            scope.modules.push(Some(TotalCost { instance, ..TotalCost::default() }));
        }
    }

    fn end_component(&mut self) {
        let Some(scope) = self.scopes.pop() else { return };
        match self.scopes.last_mut() {
            Some(outer) => outer.components.push(Some(scope.cost)),
            None => self.root.add(&scope.cost),
        }
    }

    fn add(&mut self, payload: Payload<'_>) {
        let Some(scope) = self.scopes.last_mut() else { return };
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.into_iter().map_while(Result::ok) {
                    if let Instance::Instantiate { module_index, .. } = instance {
                        let module = known(&scope.modules, module_index);
                        scope.instantiate(module);
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.into_iter().map_while(Result::ok) {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance {
                        let component = known(&scope.components, component_index);
                        scope.instantiate(component);
                    }
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                let cost = &mut scope.cost;
                for function in section.into_iter().map_while(Result::ok) {
                    cost.instance.add_host(Kind::Component, 1, CANONICAL);
                    match function {
                        CanonicalFunction::Lift { .. } => cost.lifted += 1,
                        CanonicalFunction::Lower { .. } => cost.lowered += 1,
                        _ => {}
                    }
                }
            }
            Payload::ComponentTypeSection(section) => {
                // Each of them may be a resource.
                let types = section.count().into();
                scope.cost.instance.add_host(Kind::Component, types, 32);
            }
            Payload::ComponentImportSection(section) => {
                for import in section.into_iter().map_while(Result::ok) {
                    scope.cost.instance.add_host(Kind::Component, 1, CANONICAL);
                    match import.ty {
                        ComponentTypeRef::Module(_) => scope.modules.push(None),
                        ComponentTypeRef::Component(_) => scope.components.push(None),
                        _ => {}
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                // An export is a new name for the exported item.
                for export in section.into_iter().map_while(Result::ok) {
                    scope.define(export.kind, |items| known(items, export.index));
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.into_iter().map_while(Result::ok) {
                    self.alias(&alias);
                }
            }
            _ => {}
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        let outer = |count: u32| self.scopes.iter().rev().nth(count as usize);
        match *alias {
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::CoreModule, count, index } => {
                let module = outer(count).and_then(|scope| known(&scope.modules, index));
                self.innermost(|scope| scope.modules.push(module));
            }
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                let component = outer(count).and_then(|scope| known(&scope.components, index));
                self.innermost(|scope| scope.components.push(component));
            }
            ComponentAlias::InstanceExport { kind, .. } => {
                self.innermost(|scope| scope.define(kind, |_| None));
            }
            _ => {}
        }
    }

    fn innermost(&mut self, change: impl FnOnce(&mut Scope)) {
        if let Some(scope) = self.scopes.last_mut() {
            change(scope);
        }
    }

    fn finish(mut self) -> InstanceCost {
        while !self.scopes.is_empty() {
            self.end_component();
        }
        let mut total = self.root.instance;
        if self.root.unknown > 0 {
            // The engine creates no more core instances than this, of any module.
            total.add(&self.largest.times(MAX_CORE_INSTANCES.into()));
            total.add_host(Kind::Component, self.root.unknown, ADAPTER);
        }
        // A call from one component to a function of another goes through an adapter.
        let adapters = if self.root.lifted > 1 { self.root.lowered } else { 0 };
        total.add_host(Kind::Component, adapters, ADAPTER);
        total.add_steps(adapters.saturating_mul(ADAPTER_STEPS));
        total
    }
}

impl Scope {
    fn instantiate(&mut self, item: KnownCost) {
        match item {
            Some(cost) => self.cost.add(&cost),
            None => self.cost.unknown = self.cost.unknown.saturating_add(1),
        }
    }

    /// Adds a module or a component to the ones that can be instantiated.
    fn define(&mut self, kind: ComponentExternalKind, item: impl Fn(&[KnownCost]) -> KnownCost) {
        match kind {
            ComponentExternalKind::Module => self.modules.push(item(&self.modules)),
            ComponentExternalKind::Component => self.components.push(item(&self.components)),
            _ => {}
        }
    }
}

impl TotalCost {
    fn add(&mut self, other: &Self) {
        self.instance.add(&other.instance);
        self.lifted = self.lifted.saturating_add(other.lifted);
        self.lowered = self.lowered.saturating_add(other.lowered);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }
}

fn known(items: &[KnownCost], index: u32) -> KnownCost {
    items.get(index as usize).copied().flatten()
}
