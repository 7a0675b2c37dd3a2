//! Outward dialects: interfaces of other products over the same engine, each under a prefix.
//!
//! A dialect maps names and shapes. It makes no decision about a run and stores no data that the journal has.

mod agui;
mod call;
mod date;
mod decision;
mod fill;
mod flow;
mod folds;
mod history;
mod revision;
mod session;
mod skillchat;
mod skyflo;
#[cfg(test)]
mod stage;
mod stream;
mod turn;
mod uuid;
mod zeus;

use std::sync::Arc;

use windlass_server::config::{Dialect as Name, DialectsFile};
use windlass_server::http::state::dialect::Dialect;

#[cfg(any(fuzzing, feature = "testing"))]
use self::agui::RunInput;

/// Returns the dialects that the settings enable.
pub fn served(settings: &DialectsFile) -> Vec<Arc<dyn Dialect>> {
    let all: [(Name, Arc<dyn Dialect>); 4] = [
        (Name::Skyflo, Arc::new(skyflo::SkyfloDialect)),
        (Name::Zeus, Arc::new(zeus::ZeusDialect)),
        (Name::Skillchat, Arc::new(skillchat::SkillchatDialect)),
        (Name::Agui, Arc::new(agui::AguiDialect)),
    ];
    all.into_iter().filter(|(name, _)| settings.serves(*name)).map(|(_, dialect)| dialect).collect()
}

/// Parses the body of an AG-UI run request, for fuzzing.
#[cfg(any(fuzzing, feature = "testing"))]
pub fn parse_run(bytes: &[u8]) {
    if let Ok(run) = windlass_server::http::input::parse::<RunInput>(bytes) {
        let _ = (run.check(), run.mode(), run.newest_id().is_some());
    }
}
