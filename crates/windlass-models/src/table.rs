//! The table of models: limits, prices and supported options. The embedded text has one line per model, which
//! is found by binary search and parsed on demand.
//!
//! The facts come from models.dev as reviewed by the model library `rig` (both under the MIT licence, see
//! `table/NOTICE.md`). A test compares the table with the library's catalogue, and can regenerate the table.

#[cfg(test)]
mod tests;

use windlass_engine::port::model::Price;

/// The lines, sorted by name.
static TABLE: &str = include_str!("table/models.txt");

/// One row of the table: limits, prices and capabilities of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelSpec {
    /// Maximum size of prompt and output together, in tokens.
    pub context_tokens: Option<u64>,
    /// Maximum size of the output, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether the model supports tool calls.
    pub tools: bool,
    /// Whether the model supports output by a JSON schema.
    pub structured_output: bool,
    /// Whether the model reads images.
    pub images: bool,
    /// The model's reasoning options.
    pub reasoning: ReasoningSpec,
    /// When the model accepts a temperature; `None`: unknown.
    pub sampling: Option<Sampling>,
    /// List price in US dollars per million tokens.
    pub price: Option<Price>,
    /// Whether an effort requires adaptive thinking. (Claude)
    pub adaptive_thinking: bool,
    /// Whether `between_tools`, instead of `disabled`, turns thinking off. (Claude)
    pub thinks_between_tools: bool,
    /// Whether the model accepts system messages in the middle of a conversation. (Claude)
    pub later_system: bool,
    /// Whether the model binds its thinking to tools and instructions. (Claude)
    pub binds_context: bool,
    /// Whether each assistant message needs a field `reasoning_content`. (chat)
    pub reasoning_content: bool,
}

/// The reasoning options of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ReasoningSpec {
    /// Whether the model reasons.
    pub supported: bool,
    /// The supported levels.
    pub levels: Levels,
    /// The smallest and the largest supported budget, in tokens.
    pub budget: Option<(u32, u32)>,
    /// Whether a request can turn reasoning off.
    pub can_disable: bool,
    /// Whether the model reasons by default.
    pub on_by_default: bool,
}

/// When a model accepts a temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Always.
    Any,
    /// Only while the model does not reason.
    ReasoningOff,
    /// Never.
    Never,
}

/// A level of reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// `minimal`
    Minimal,
    /// `low`
    Low,
    /// `medium`
    Medium,
    /// `high`
    High,
    /// `xhigh`
    XHigh,
    /// `max`
    Max,
}

impl Level {
    const ALL: [Self; 6] = [Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// Returns the name of the level, which is the same on all wires.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A set of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels(u8);

impl Levels {
    /// Creates the set of these levels.
    pub(crate) fn of(levels: &[Level]) -> Self {
        Self(levels.iter().fold(0, |set, level| set | 1 << *level as u8))
    }

    /// Whether the set has no level.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains a level.
    pub(crate) fn contains(self, level: Level) -> bool {
        self.0 & (1 << level as u8) != 0
    }

    /// Returns the levels, lowest first.
    pub(crate) fn iter(self) -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(move |level| self.contains(*level))
    }
}

/// Finds a model of a vendor by its exact name.
pub(crate) fn exact(vendor: &str, model: &str) -> Option<ModelSpec> {
    line(&format!("{vendor}/{model}")).map(parse)
}

/// Finds a model also by the name of a dated snapshot: `-YYYYMMDD` or `-YYYY-MM-DD`.
pub(crate) fn find(vendor: &str, model: &str) -> Option<ModelSpec> {
    exact(vendor, model).or_else(|| exact(vendor, undated(model)?))
}

/// Finds a model also by the name of a snapshot with any suffix that begins with the year. If
/// several names match, the longest is used.
pub(crate) fn find_snapshot(vendor: &str, model: &str) -> Option<ModelSpec> {
    let shorter = || model.match_indices("-20").filter_map(|(at, _)| exact(vendor, &model[..at])).last();
    exact(vendor, model).or_else(shorter)
}

/// Finds a Claude model in any API's notation: `claude-opus-5-5`, `anthropic/claude-opus-5.5`, or
/// `us.anthropic.claude-opus-5-5-v1:0`.
pub(crate) fn find_claude(model: &str) -> Option<ModelSpec> {
    let model = model.rsplit_once("anthropic.").map_or(model, |(_, rest)| rest);
    let model = model.strip_prefix("anthropic/").unwrap_or(model);
    let model = model.split_once("-v1:").map_or(model, |(name, _)| name);
    find_snapshot("anthropic", &model.replace('.', "-"))
}

fn undated(model: &str) -> Option<&str> {
    let is_number =
        |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, last) = model.rsplit_once('-')?;
    if is_number(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (is_number(year, 4) && is_number(month, 2) && is_number(last, 2)).then_some(rest)
}

/// Returns the line of a model, without its name.
fn line(name: &str) -> Option<&'static str> {
    let (mut first, mut last) = (0, TABLE.len());
    while first < last {
        let middle = first + (last - first) / 2;
        let start = TABLE[first..middle].rfind('\n').map_or(first, |at| first + at + 1);
        let end = TABLE[start..last].find('\n').map_or(last, |at| start + at);
        let (known, facts) = TABLE[start..end].split_once('\t')?;
        match name.cmp(known) {
            std::cmp::Ordering::Equal => return Some(facts),
            std::cmp::Ordering::Less => last = start,
            std::cmp::Ordering::Greater => first = (end + 1).min(last),
        }
    }
    None
}

/// Parses the facts of a line: context, output, flags, levels, budget and prices. The test that regenerates
/// the table documents each flag.
fn parse(facts: &str) -> ModelSpec {
    let mut fields = facts.split('\t');
    let mut next = || fields.next().unwrap_or_default();
    let (context, output, flags, levels, budget, prices) = (next(), next(), next(), next(), next(), next());
    let has = |flag: char| flags.contains(flag);
    let levels =
        levels.bytes().filter(u8::is_ascii_digit).fold(0, |set, digit| set | 1 << (digit - b'0').min(7));
    let mut prices = prices.split(' ').map(|price| price.parse::<f64>().ok());
    let mut price = || prices.next().flatten();
    let (input, output_price, cached, cache_written) = (price(), price(), price(), price());
    ModelSpec {
        context_tokens: context.parse().ok(),
        max_output_tokens: output.parse().ok(),
        tools: has('t'),
        structured_output: has('s'),
        images: has('i'),
        reasoning: ReasoningSpec {
            supported: has('r'),
            levels: Levels(levels),
            budget: budget
                .split_once('-')
                .and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?))),
            can_disable: has('o'),
            on_by_default: has('d'),
        },
        sampling: match () {
            () if has('N') => Some(Sampling::Never),
            () if has('O') => Some(Sampling::ReasoningOff),
            () if has('A') => Some(Sampling::Any),
            () => None,
        },
        price: input.zip(output_price).map(|(input, output)| Price { input, output, cached, cache_written }),
        adaptive_thinking: has('a'),
        thinks_between_tools: has('w'),
        later_system: has('m'),
        binds_context: has('b'),
        reasoning_content: has('f'),
    }
}
