//! The server's counters: requests, streams, bytes, and the time of the first request.
//!
//! `POST /reset` resets them between two measurements.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use crate::machine;

/// The counters of one server.
#[derive(Debug, Default)]
pub struct Stats {
    requests: AtomicU64,
    refused: AtomicU64,
    streams: AtomicU64,
    active: AtomicU64,
    active_max: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    first_ns: AtomicU64,
}

impl Stats {
    /// Returns the number of model requests since the start or the last reset.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Returns all counters, as in the response to `GET /stats`, and the CPU time of this process since its start.
    pub fn to_json(&self) -> Value {
        json!({
            "requests": self.requests.load(Relaxed),
            "refused": self.refused.load(Relaxed),
            "streams": self.streams.load(Relaxed),
            "active": self.active.load(Relaxed),
            "active_max": self.active_max.load(Relaxed),
            "bytes_in": self.bytes_in.load(Relaxed),
            "bytes_out": self.bytes_out.load(Relaxed),
            "cpu_s": machine::cpu_seconds(),
        })
    }

    /// Returns the time of the first request, as in the response to `GET /first`:
    /// nanoseconds of the monotonic clock, or null.
    pub fn first_json(&self) -> Value {
        let first_ns = self.first_ns.load(Relaxed);
        json!({"first_ns": (first_ns > 0).then_some(first_ns)})
    }

    pub(super) fn reset(&self) {
        let counters = [
            &self.requests,
            &self.refused,
            &self.streams,
            &self.active_max,
            &self.bytes_in,
            &self.bytes_out,
            &self.first_ns,
        ];
        for counter in counters {
            counter.store(0, Relaxed);
        }
    }

    /// Records a request when its head has arrived.
    pub(super) fn request_came(&self) {
        if self.first_ns.load(Relaxed) == 0 {
            let now = machine::monotonic_ns();
            // If two requests arrive at once, either may be recorded as the first; the other's
            // exchange fails and changes nothing.
            let _ = self.first_ns.compare_exchange(0, now, Relaxed, Relaxed);
        }
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn body_came(&self, size_bytes: usize) {
        self.bytes_in.fetch_add(size_bytes as u64, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn stream_opened(&self) {
        self.streams.fetch_add(1, Relaxed);
        let active = self.active.fetch_add(1, Relaxed) + 1;
        self.active_max.fetch_max(active, Relaxed);
    }

    pub(super) fn stream_closed(&self) {
        self.active.fetch_sub(1, Relaxed);
    }

    pub(super) fn sent(&self, size_bytes: usize) {
        self.bytes_out.fetch_add(size_bytes as u64, Relaxed);
    }
}
