//! The live bus of one machine.
