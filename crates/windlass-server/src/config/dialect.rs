//! `[server.dialect.<name>]`: the interfaces of other products, and how closely each one follows the original product.
//!
//! A dialect is served unless its table contains `enabled = false`; its requests pass the same authentication and
//! limits as the API. Options that are unsafe on an exposed server are off by default. This module only defines the
//! keys.

use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::trouble::Trouble;

/// Allowed values of a dialect's `max_steps`, as in the engine.
const MAX_STEPS: RangeInclusive<u32> = 1..=10_000;

/// `[server.dialect]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DialectsFile {
    pub skyflo: SkyfloFile,
    pub zeus: ZeusFile,
    pub skillchat: SkillchatFile,
    pub agui: AguiFile,
}

/// `[server.dialect.skyflo]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkyfloFile {
    /// Default: true.
    pub enabled: Option<bool>,
    /// Whether the first account that registers over the dialect becomes the administrator. (SK-P10)
    pub first_registration: Option<bool>,
}

/// `[server.dialect.zeus]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ZeusFile {
    /// Default: true.
    pub enabled: Option<bool>,
    /// Whether a request may name the endpoint and the API key for its run's model. (ZE-C7)
    pub client_endpoints: Option<bool>,
    /// Maximum number of steps of runs that the dialect starts. Overrides the agent's limit. (ZE-X8)
    pub max_steps: Option<u32>,
}

/// `[server.dialect.skillchat]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillchatFile {
    /// Default: true.
    pub enabled: Option<bool>,
    /// Whether a caller without a credential becomes a guest. (WT-E7)
    pub guest: Option<bool>,
}

impl SkillchatFile {
    pub fn admits_guests(&self) -> bool {
        self.guest.unwrap_or_default() && self.enabled.unwrap_or(true)
    }
}

/// `[server.dialect.agui]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AguiFile {
    /// Default: true.
    pub enabled: Option<bool>,
}

/// An interface of another product, under its own path prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Served at `/skyflo`.
    Skyflo,
    /// Served at `/zeus`.
    Zeus,
    /// Served at `/skillchat`.
    Skillchat,
    /// Served at `/agui`.
    Agui,
}

impl SkyfloFile {
    pub fn first_registration(&self) -> bool {
        self.first_registration.unwrap_or(false)
    }
}

impl ZeusFile {
    pub fn client_endpoints(&self) -> bool {
        self.client_endpoints.unwrap_or(false)
    }
}

impl DialectsFile {
    /// Merges two layers, key by key; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            skyflo: SkyfloFile {
                enabled: self.skyflo.enabled.or(weaker.skyflo.enabled),
                first_registration: self.skyflo.first_registration.or(weaker.skyflo.first_registration),
            },
            zeus: ZeusFile {
                enabled: self.zeus.enabled.or(weaker.zeus.enabled),
                client_endpoints: self.zeus.client_endpoints.or(weaker.zeus.client_endpoints),
                max_steps: self.zeus.max_steps.or(weaker.zeus.max_steps),
            },
            skillchat: SkillchatFile {
                enabled: self.skillchat.enabled.or(weaker.skillchat.enabled),
                guest: self.skillchat.guest.or(weaker.skillchat.guest),
            },
            agui: AguiFile { enabled: self.agui.enabled.or(weaker.agui.enabled) },
        }
    }

    pub fn serves(&self, dialect: Dialect) -> bool {
        let enabled = match dialect {
            Dialect::Skyflo => self.skyflo.enabled,
            Dialect::Zeus => self.zeus.enabled,
            Dialect::Skillchat => self.skillchat.enabled,
            Dialect::Agui => self.agui.enabled,
        };
        enabled.unwrap_or(true)
    }

    /// Rejects values that are out of range.
    pub fn check(&self) -> Result<(), Trouble> {
        match self.zeus.max_steps.filter(|steps| !MAX_STEPS.contains(steps)) {
            Some(steps) => {
                let (least, most) = (MAX_STEPS.start(), MAX_STEPS.end());
                Err(Trouble::usage(format!(
                    "`[server.dialect.zeus] max_steps` is {steps}; it must be {least} to {most}"
                ))
                .hint("Zeus itself allows 999; remove the key to use the agent's own limit"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> DialectsFile {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_dialect_is_served_until_its_table_disables_it() {
        let all = [Dialect::Skyflo, Dialect::Zeus, Dialect::Skillchat, Dialect::Agui];
        let served = |text: &str| all.map(|dialect| file(text).serves(dialect));
        assert_eq!(served(""), [true; 4]);
        assert_eq!(served("[zeus]\nenabled = false\n"), [true, false, true, true]);
        assert_eq!(
            served("[skyflo]\nenabled = false\n[skillchat]\nenabled = false\n[agui]\nenabled = false\n"),
            [false, true, false, false]
        );
    }

    #[test]
    fn a_stronger_layer_changes_single_keys() {
        let weaker = file(
            "[skyflo]\nfirst_registration = true\n[zeus]\nclient_endpoints = true\nmax_steps = 999\n\
             [agui]\nenabled = false\n[skillchat]\nguest = true\n",
        );
        let stronger = file("[zeus]\nclient_endpoints = false\n[agui]\nenabled = true\n");
        let both = stronger.over(weaker);
        assert_eq!(both.skyflo.first_registration, Some(true));
        assert_eq!((both.zeus.client_endpoints, both.zeus.max_steps), (Some(false), Some(999)));
        assert!(both.serves(Dialect::Agui) && both.skillchat.admits_guests());
        let disabled = file("[skillchat]\nenabled = false\n").over(both);
        assert!(!disabled.skillchat.admits_guests());
    }

    #[test]
    fn wrong_keys_and_figures_are_refused_by_name() {
        let refused = |text: &str| match toml::from_str::<DialectsFile>(text) {
            Err(error) => error.message().to_owned(),
            Ok(file) => file.check().map_or_else(|trouble| trouble.parts().0.to_owned(), |()| "taken".into()),
        };
        insta::assert_snapshot!([
            refused("[skyfli]\nenabled = true"),
            refused("[skyflo]\nfirst = true"),
            refused("[zeus]\nmax_steps = 0"),
            refused("[zeus]\nmax_steps = 10001"),
            refused("[zeus]\nmax_steps = 999"),
            refused("[agui]\nenabled = 'yes'"),
        ]
        .join("\n"), @r#"
        unknown field `skyfli`, expected one of `skyflo`, `zeus`, `skillchat`, `agui`
        unknown field `first`, expected `enabled` or `first_registration`
        `[server.dialect.zeus] max_steps` is 0; it must be 1 to 10000
        `[server.dialect.zeus] max_steps` is 10001; it must be 1 to 10000
        taken
        invalid type: string "yes", expected a boolean
        "#);
    }
}
