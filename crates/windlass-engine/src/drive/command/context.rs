//! The context of a command: its thread, run, tools and folder, and the services that carry it out.
//!
//! This module starts no commands.

use std::sync::Arc;

use tracing::{Instrument, Span};
use windlass_machine::{Offload, RunId, ThreadId};

use super::folder::{Folders, ThreadFolder};
use super::inspect::CallInspector;
use super::offload::Offloading;
use crate::drive::catalog::ToolCatalog;
use crate::drive::catalog::tools::Offered;
use crate::drive::contents::Contents;
use crate::drive::thread::mail::Letter;
use crate::drive::trace;
use crate::port::bus::Bus;
use crate::port::clock::Clock;
use crate::port::model::Models;

/// Services that commands use.
pub(crate) struct CommandServices {
    pub models: Arc<dyn Models>,
    pub contents: Arc<Contents>,
    pub catalog: Arc<ToolCatalog>,
    pub inspector: Arc<CallInspector>,
    pub folders: Arc<Folders>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub offloading: Offloading,
}

/// The thread and run of a command.
#[derive(Clone)]
pub(in crate::drive) struct Place {
    pub services: Arc<CommandServices>,
    pub workspace: Arc<str>,
    pub thread: ThreadId,
    pub run: RunId,
    /// The tools of the run.
    pub tools: Arc<Offered>,
    /// The working folder of the thread.
    pub folder: Arc<ThreadFolder>,
    /// Time zone for times shown to the model, as an offset from UTC in minutes.
    pub utc_offset_minutes: Option<i32>,
    /// Whether and how the run offloads long results.
    pub offload: Option<Offload>,
    /// The command's tracing span.
    pub span: Span,
}

/// Runs a command inside its span, and logs its start and end.
pub(in crate::drive) async fn followed(
    place: Place,
    carry_out: impl AsyncFnOnce(Place, u64) -> Letter,
) -> Letter {
    let (clock, span) = (place.services.clock.clone(), place.span.clone());
    let carried_out = async {
        tracing::info!("started");
        let started = clock.monotonic_ms();
        let letter = carry_out(place, started).await;
        trace::ended(&letter.input, &*clock, started);
        letter
    };
    carried_out.instrument(span).await
}
