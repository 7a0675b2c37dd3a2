//! Tests of the machine through its public face: transcripts, journals, schedules, properties, costs.

mod fixture;
mod reference;
mod schedule;
mod transcript;
