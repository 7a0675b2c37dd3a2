//! What tests of Windlass, and of adapters that others write, are made of.

pub mod suite;
