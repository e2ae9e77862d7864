use bytesize::ByteSize;
use relayer_rest_modules::{BUNDLED_EXTENSIONS, DEFAULT_MODULE};

use super::{Excess, InstanceCost, Limits, MAX_HOST_BYTES, Placement};

fn cost_of(text: &str) -> InstanceCost {
    InstanceCost::from_component(&wat::parse_str(text).unwrap())
}

/// Returns the cost of a component with this many instances of a core module with `core`.
fn with(core: &str, instances: usize) -> InstanceCost {
    let created = "(core instance (instantiate $m))".repeat(instances);
    cost_of(&format!("(component (core module $m (func $f) {core}) {created})"))
}

/// Returns the cost of a component that instantiates the one of [`with`] `times` times.
fn nested(core: &str, instances: usize, times: usize) -> InstanceCost {
    let created = "(core instance (instantiate $m))".repeat(instances);
    let times = "(instance (instantiate $c))".repeat(times);
    let inner = format!("(component $c (core module $m (func $f) {core}) {created})");
    cost_of(&format!("(component {inner} {times})"))
}

fn is_background(cost: InstanceCost) -> bool {
    cost.placement() == Placement::Background
}

fn elements(count: usize) -> String {
    format!("(table 20000 funcref) (elem (i32.const 0) func {})", "$f ".repeat(count))
}

fn constants(count: usize) -> String {
    "i32.const 1 i32.add ".repeat(count)
}

#[test]
fn bundled_modules_are_created_inline_and_are_small() {
    let extensions = BUNDLED_EXTENSIONS.iter().map(|extension| extension.component);
    for component in [DEFAULT_MODULE].into_iter().chain(extensions) {
        let cost = InstanceCost::from_component(component);
        assert_eq!(cost.placement(), Placement::Inline);
        assert!(cost.host_bytes() < 64 << 10, "{cost:?}");
        assert!(cost.total() < 1 << 20, "{cost:?}");
    }
}

#[test]
fn memories_are_summed_over_instances() {
    let two = "(memory 2) (memory 3 9)";
    assert_eq!(with(two, 1).memory, 5 << 16);
    assert_eq!(with(two, 3).memory, 15 << 16);
    assert_eq!(with(two, 0).memory, 0);
    assert_eq!(nested(two, 2, 3).memory, 30 << 16);
    let max = "(memory i64 0x1000000000000) (memory i64 0x1000000000000)";
    assert_eq!(with(max, 1).memory, u64::MAX);
}

#[test]
fn modules_are_counted_at_any_depth() {
    let module = "(core module $m (memory 1))";
    let outer = "(component $c (alias outer $o $m (core module $n))
        (core instance (instantiate $n)) (core instance (instantiate $n)))";
    let text = format!("(component $o {module} {outer} (instance (instantiate $c)))");
    assert_eq!(cost_of(&text).core_instances, 2);
    assert_eq!(cost_of(&text).memory, 2 << 16);
    let exported = "(export $n \"n\" (core module $m)) (core instance (instantiate $n))";
    assert_eq!(cost_of(&format!("(component {module} {exported})")).memory, 1 << 16);
}

/// The argument may be any module of the component, instantiated as often as the engine
/// allows.
#[test]
fn a_module_that_is_an_argument_counts_as_the_largest() {
    let inner = "(component $c (import \"m\" (core module $m)) (core instance (instantiate $m)))";
    let module = "(core module $m (memory 1)) (core module (memory 2))";
    let instance = "(instance (instantiate $c (with \"m\" (core module $m))))";
    let cost = cost_of(&format!("(component {inner} {module} {instance})"));
    assert_eq!(cost.memory, 128 << 16);
}

#[test]
fn components_that_double_each_other_do_not_overflow() {
    let mut text =
        "(component $c0 (core module $m (memory 1)) (core instance (instantiate $m)))".to_owned();
    for depth in 1..100 {
        let before = depth - 1;
        let twice = "(instance (instantiate $c))".repeat(2);
        let alias = format!("(alias outer $o $c{before} (component $c))");
        text.extend(["(component $c", &depth.to_string(), " ", &alias, &twice, ")"]);
    }
    let cost = cost_of(&format!("(component $o {text} (instance (instantiate $c99)))"));
    assert_eq!(cost.total(), u64::MAX);
}

#[test]
fn unreadable_components_count_as_slow() {
    let cost = InstanceCost::from_component(&DEFAULT_MODULE[..DEFAULT_MODULE.len() / 2]);
    assert!(cost.core_instances == 0 || cost.placement() != Placement::Inline, "{cost:?}");
    assert_ne!(with("(start $f)", 1).placement(), Placement::Inline);
    assert_ne!(nested("(start $f)", 1, 1).placement(), Placement::Inline);
    assert_eq!(with("", 1).placement(), Placement::Inline);
}

#[test]
fn writing_elements_of_tables_takes_steps() {
    assert!(!is_background(with(&elements(15_000), 1)));
    assert!(is_background(with(&elements(10_001), 2)));
    assert!(!is_background(with("(table 20001 funcref)", 2)));
    assert!(is_background(with("(table 20001 funcref (ref.func $f)) (elem declare func $f)", 1)));
    assert!(!is_background(nested(&elements(8_000), 2, 1)));
    assert!(is_background(nested(&elements(8_000), 2, 2)));
}

#[test]
fn evaluating_expressions_takes_steps() {
    let global = format!("(global i32 i32.const 0 {})", constants(3_000));
    assert!(!is_background(with(&global, 2)));
    assert!(is_background(with(&global, 3)));
    let data = format!("(memory 1) (data (offset i32.const 0 {}) \"a\")", constants(3_000));
    assert!(!is_background(with(&data, 2)));
    assert!(is_background(with(&data, 3)));
}

#[test]
fn copying_data_takes_time() {
    let data = |pages: usize| {
        let bytes = "a".repeat(pages << 16);
        format!("(memory {pages}) (data (i32.const 0) \"{bytes}\")")
    };
    assert!(!is_background(with(&data(64), 2)));
    assert!(is_background(with(&data(64), 3)));
}

#[test]
fn passive_segments_are_kept_by_the_host() {
    let limits = Limits { memory: ByteSize::mib(1), ..Limits::default() };
    let cost = with(&"(elem func $f)".repeat(90_000), 62);
    let Err(Excess::Memory(reason)) = cost.check(&limits) else { panic!("{cost:?}") };
    assert!(reason.contains("MiB for its passive segments"), "{reason}");
    // The host's data is bounded, even if the limit is higher.
    let limits = Limits { memory: ByteSize::gib(4), ..Limits::default() };
    let Err(Excess::Host(reason)) = cost.check(&limits) else { panic!("{cost:?}") };
    assert!(reason.contains("passive segments"), "{reason}");
    assert!(is_background(with(&"(elem func $f)".repeat(5_000), 1)));
    assert_eq!(with("(elem func $f)", 2).check(&limits), Ok(()));
    assert!(MAX_HOST_BYTES < limits.memory.as_u64());
}

#[test]
fn only_referenced_functions_are_counted() {
    let functions = "(func)".repeat(1_000);
    let exported = (0..1_000).map(|number| format!("(func (export \"{number}\"))"));
    let exported = exported.collect::<String>();
    let few = with(&functions, 1).host_bytes();
    let all = with(&exported, 1).host_bytes();
    assert_eq!(all - few, 32_000);
}

#[test]
fn tables_are_counted_by_their_initial_size() {
    assert_eq!(with("(table 20000 funcref)", 4).tables, 640_000);
    assert!(with("(table 10000000 funcref)", 1).check(&Limits::default()).is_err());
}
