//! placeholder
use anyhow::Result;
/// x
pub fn run(_: &[String]) -> Result<()> {
    Ok(())
}
