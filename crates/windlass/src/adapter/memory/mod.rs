//! Every port in memory.
