//! The context of a command: its thread, run, tools and folder, and the services that carry it out.
//!
//! It starts nothing.

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

/// What commands are carried out with.
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

/// Who a command is carried out for.
#[derive(Clone)]
pub(in crate::drive) struct Place {
    pub services: Arc<CommandServices>,
    pub workspace: Arc<str>,
    pub thread: ThreadId,
    pub run: RunId,
    /// The tools of the run.
    pub tools: Arc<Offered>,
    /// Where the thread's tools work.
    pub folder: Arc<ThreadFolder>,
    /// The time zone in which the run gets the time, as an offset from UTC in minutes.
    pub utc_offset_minutes: Option<i32>,
    /// Whether the run wants long results summed up.
    pub offload: Option<Offload>,
    /// What a log shows of the command.
    pub span: Span,
}

/// Carries a command out inside its span, which hears of its start and of its end.
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
