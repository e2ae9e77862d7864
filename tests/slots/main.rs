//! Request data left in slots of the pool: it is detected, and it is not left there when
//! the system swaps.
//!
//! In a process of its own: the tests search all of its memory.

mod leftovers;
mod memory;
mod swapping;
