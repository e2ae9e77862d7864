//! The tests of the whole: each file asks one question.

mod command;
mod compiling;
mod contract;
mod control;
mod embedding;
mod endpoints;
mod extensions;
mod fuzz;
mod going_back;
mod hostile_clients;
mod hostile_modules;
mod http;
mod isolation;
mod limits;
mod modules;
mod new;
mod readme;
mod relayer_config;
mod reloading;
mod remembering;
mod representations;
mod sources;
mod staleness;
mod state;
mod swapping;
mod upstream;
