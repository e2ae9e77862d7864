//! Is the contract unchanged and complete?

use relayer_rest_host::module::{CONTRACT_PACKAGE, CONTRACT_VERSION, Limits, Module};
use relayer_rest_tests::component;
use relayer_rest_tests::server::{engine, patient};
use wit_component::WitPrinter;

/// A change here affects all existing modules: a released version only grows, by new
/// functions and interfaces.
#[test]
fn the_contract_is_unchanged() {
    let (resolve, package) = component::contract();
    let mut printer = WitPrinter::default();
    printer.emit_docs(false);
    printer.print(&resolve, package, &[]).unwrap();
    insta::assert_snapshot!(printer.output.to_string());
}

#[test]
fn the_contracts_name_is_that_of_the_host() {
    let (resolve, package) = component::contract();
    let name = resolve.packages[package].name.to_string();
    assert_eq!(name, format!("{CONTRACT_PACKAGE}@{CONTRACT_VERSION}"));
}

#[test]
fn everything_in_the_contract_is_documented_and_dated() {
    let (resolve, package) = component::contract();
    let dated = |stability: &wit_parser::Stability| {
        matches!(stability, wit_parser::Stability::Stable { .. })
    };
    let mut items = 0;
    for (name, id) in &resolve.packages[package].interfaces {
        let interface = &resolve.interfaces[*id];
        assert!(interface.docs.contents.is_some() && dated(&interface.stability), "{name}");
        for (function, item) in &interface.functions {
            assert!(item.docs.contents.is_some() && dated(&item.stability), "{name}.{function}");
            items += 1;
        }
        for (ty, id) in &interface.types {
            let item = &resolve.types[*id];
            let used = matches!(item.kind, wit_parser::TypeDefKind::Type(wit_parser::Type::Id(_)));
            assert!(used || item.docs.contents.is_some() && dated(&item.stability), "{name}.{ty}");
            let parts: Vec<_> = match &item.kind {
                wit_parser::TypeDefKind::Record(record) => {
                    record.fields.iter().map(|field| (&field.name, &field.docs)).collect()
                }
                wit_parser::TypeDefKind::Variant(variant) => {
                    variant.cases.iter().map(|case| (&case.name, &case.docs)).collect()
                }
                wit_parser::TypeDefKind::Enum(cases) => {
                    cases.cases.iter().map(|case| (&case.name, &case.docs)).collect()
                }
                _ => Vec::new(),
            };
            for (part, docs) in parts {
                assert!(docs.contents.is_some(), "{name}.{ty}.{part}");
            }
            items += 1;
        }
    }
    assert!(items > 40, "{items}");
}

/// A module imports every function of the contract in `wit/`.
#[test]
fn every_function_of_the_contract_can_be_imported() {
    let component = component::of_core(&component::imports());
    let limits = Limits { concurrency: 1, ..patient() };
    Module::from_bytes(&engine(&limits), "all", &component).unwrap();
}
