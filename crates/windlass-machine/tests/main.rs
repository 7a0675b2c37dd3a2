//! Tests of the machine's public API: transcripts, journals, schedules, properties, costs.

mod asks;
mod blobs;
mod clock;
mod cost;
mod decision;
mod fixture;
mod fold;
mod fork;
mod journal;
mod modes;
mod nonsense;
mod note;
mod people;
mod policy;
mod property;
mod reference;
mod rollback;
mod schedule;
mod script;
mod seen;
mod size;
mod story;
mod told;
mod transcript;
mod world;
