//! Slots of the pool in which data of a request is left: how it is found, and that it
//! is not left there when the system swaps.
//!
//! In a process of their own: the tests look for data in the whole of its memory.

mod leftovers;
mod memory;
mod swapping;
