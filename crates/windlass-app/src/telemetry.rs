//! Logs go to standard error, warnings and worse unless `WINDLASS_LOG` or `RUST_LOG` asks for more.
//!
//! What is logged is the library's to say; this chooses how much of it is shown.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::console::{Console, Paint};

/// What `--help` says about logs.
pub const LOGS: &str = "\
Logs (on stderr):
  WINDLASS_LOG=windlass=info   each step and call: its place, outcome, time and tokens
  WINDLASS_LOG=windlass=debug  decisions too; `trace` adds texts, arguments and results";

/// Starts logging. A filter that cannot be read is said and left out.
pub fn start(console: &Console) {
    let wanted = ["WINDLASS_LOG", "RUST_LOG"]
        .iter()
        .find_map(|name| Some((name, std::env::var(name).ok().filter(|value| !value.trim().is_empty())?)));
    let filter = wanted.and_then(|(name, value)| match EnvFilter::try_new(&value) {
        Ok(filter) => Some(filter),
        Err(error) => {
            let hint = format!("write {name} as `warn` or `windlass=info`");
            console.warn(&format!("{name}=`{value}` is no log filter: {error}"), &[&hint]);
            None
        }
    });
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("warn")))
        .with_ansi(console.paint == Paint::Colored)
        .with_writer(io::stderr)
        .finish();
    // Fails only where a subscriber is set already, and nothing before this sets one.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
