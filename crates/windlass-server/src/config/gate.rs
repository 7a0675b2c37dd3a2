//! Settings of tools, approvals and budgets.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use windlass::limits::{Budget, Per, Unit, Window};
use windlass::machine::{Approver, EffectClass};
use windlass::tool::{Adjustment, Reconcile};

use super::money::Dollars;
use crate::policy::Length;

/// `[tools.<name>]`: an administrator's override of a tool's annotations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolFile {
    /// Whether the engine may repeat a call whose outcome is lost.
    pub effect: Option<EffectWord>,
    /// Whether the tool's annotations are trusted.
    pub trusted: Option<bool>,
    /// The call that looks up a lost outcome.
    pub reconcile: Option<Reconcile>,
}

/// `effect = "pure" | "idempotent" | "keyed" | "once"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectWord {
    /// A call changes nothing.
    Pure,
    /// A repeated call has no further effect.
    Idempotent,
    /// The external system deduplicates repeated calls by a key.
    Keyed,
    /// The engine never repeats a call automatically.
    Once,
}

impl ToolFile {
    /// Merges two layers; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            effect: self.effect.or(weaker.effect),
            trusted: self.trusted.or(weaker.trusted),
            reconcile: self.reconcile.or(weaker.reconcile),
        }
    }

    /// Converts to the registry's type.
    pub fn adjustment(&self) -> Adjustment {
        let class = |word| match word {
            EffectWord::Pure => EffectClass::Pure,
            EffectWord::Idempotent => EffectClass::Idempotent,
            EffectWord::Keyed => EffectClass::Keyed,
            EffectWord::Once => EffectClass::Once,
        };
        Adjustment {
            effect_class: self.effect.map(class),
            trusted: self.trusted,
            reconcile: self.reconcile.clone(),
        }
    }
}

/// Merges the tools of two layers, by name.
pub fn tools_over(
    stronger: BTreeMap<String, ToolFile>,
    mut weaker: BTreeMap<String, ToolFile>,
) -> BTreeMap<String, ToolFile> {
    for (name, tool) in stronger {
        let below = weaker.remove(&name).unwrap_or_default();
        weaker.insert(name, tool.over(below));
    }
    weaker
}

/// `[approvals]`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsFile {
    /// Time after which the engine declines an unanswered question of the agent.
    pub question_timeout: Option<Length>,
    /// Minimum time between a change of an account by another user and the start of a run that the account may approve.
    /// Applies if a rule names approvers or a quorum. Changes of the role, the password and the address are relevant.
    pub vote_after: Option<Length>,
}

/// `[[budget]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BudgetText")]
pub struct BudgetFile(pub Budget);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetText {
    per: Per,
    unit: Unit,
    #[serde(default)]
    window: Window,
    cap: toml::Value,
    #[serde(default)]
    approvers: BTreeSet<Approver>,
}

impl TryFrom<BudgetText> for BudgetFile {
    type Error = String;

    fn try_from(text: BudgetText) -> Result<Self, Self::Error> {
        let BudgetText { per, unit, window, cap, approvers } = text;
        let whole = |what: &str| {
            let number = cap.as_integer().and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| format!("`cap = {cap}`: a budget in {what} must be a whole number"))
        };
        let cap = match unit {
            Unit::Usd => Dollars::try_from(&cap).map_err(|wanted| format!("`cap = {cap}`; {wanted}"))?.0,
            Unit::Tokens => whole("tokens")?,
            Unit::Steps => whole("steps")?,
        };
        Ok(Self(Budget { per, unit, window, cap, approvers }))
    }
}
