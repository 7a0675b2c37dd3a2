//! Budgets of Windlass's cost, as text for the table and as checks.
//!
//! Limits relative to rig's figure are compared on the same machine at the same time.

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Budget {
    /// At most this figure.
    AtMost(f64),
    /// At least this figure.
    AtLeast(f64),
    /// At most rig's figure plus this margin.
    OverRig(f64),
    /// At most rig's figure plus a margin and the disk's time for several appends.
    OverRigWithSyncs {
        /// Margin in addition to rig's figure and the disk's time.
        add: f64,
        /// Number of appends.
        syncs: f64,
        /// Time per append in milliseconds.
        sync_ms: f64,
    },
    /// At most rig's figure times this factor.
    TimesRig(f64),
    /// Between both limits.
    Between(f64, f64),
}

impl Budget {
    /// Returns the text in the table.
    pub(super) fn text(self) -> String {
        match self {
            Budget::AtMost(limit) => format!("≤ {}", grouped(limit)),
            Budget::AtLeast(limit) => format!("≥ {}", grouped(limit)),
            Budget::OverRig(add) => format!("≤ rig + {add}"),
            Budget::OverRigWithSyncs { add, syncs, sync_ms } => {
                format!("≤ rig + {add} + {syncs} × {sync_ms:.2}")
            }
            Budget::TimesRig(factor) => format!("≤ {factor} × rig"),
            Budget::Between(low, high) => format!("{low}–{high}"),
        }
    }

    /// Whether a figure meets the budget; `None` if rig's figure is needed and missing.
    pub(super) fn is_met(self, figure: f64, rig: Option<f64>) -> Option<bool> {
        match self {
            Budget::AtMost(limit) => Some(figure <= limit),
            Budget::AtLeast(limit) => Some(figure >= limit),
            Budget::OverRig(add) => rig.map(|rig| figure <= rig + add),
            Budget::OverRigWithSyncs { add, syncs, sync_ms } => {
                rig.map(|rig| figure <= rig + add + syncs * sync_ms)
            }
            Budget::TimesRig(factor) => rig.map(|rig| figure <= rig * factor),
            Budget::Between(low, high) => Some((low..=high).contains(&figure)),
        }
    }
}

/// Formats a number with grouped thousands, without a fraction if it is whole.
pub(super) fn grouped(number: f64) -> String {
    if number.fract() != 0.0 {
        return number.to_string();
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_checked_and_read_well() {
        let cases = [
            (Budget::AtMost(1.5), 1.5, None, "≤ 1.5", Some(true)),
            (Budget::AtLeast(60_000.0), 59_999.0, None, "≥ 60,000", Some(false)),
            (Budget::OverRig(0.25), 0.8, Some(0.6), "≤ rig + 0.25", Some(true)),
            (Budget::OverRig(0.25), 0.8, None, "≤ rig + 0.25", None),
            (Budget::TimesRig(1.5), 3.1, Some(2.0), "≤ 1.5 × rig", Some(false)),
            (Budget::Between(0.9, 1.1), 1.0, None, "0.9–1.1", Some(true)),
            (
                Budget::OverRigWithSyncs { add: 0.3, syncs: 2.0, sync_ms: 1.0 },
                3.1,
                Some(1.0),
                "≤ rig + 0.3 + 2 × 1.00",
                Some(true),
            ),
        ];
        for (budget, figure, rig, text, is_met) in cases {
            assert_eq!((budget.text().as_str(), budget.is_met(figure, rig)), (text, is_met));
        }
    }
}
