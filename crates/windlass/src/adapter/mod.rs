//! Adapters: what the ports are made of.
//! Each is replaceable.
