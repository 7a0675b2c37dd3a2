//! `Grep`: searches files for a regular expression. The regular expression engine is a finite automaton of
//! bounded size, so every pattern takes linear time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use globset::GlobSet;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use windlass_engine::port::tool::ToolOutput;
use windlass_engine::tool::WorkingFolder;
use windlass_schema::FunctionTool;

use super::walk::{Entry, Flow, Ignored, Passed, walk};
use super::{Answer, Refusal, glob, look, read_only};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepArguments {
    /// The regular expression, in Rust's syntax.
    pattern: String,
    /// File or directory (default: the working folder).
    path: Option<String>,
    /// Only files that match this glob, such as `src/**/*.rs`.
    glob: Option<String>,
    /// Return matching files, their matching lines, or counts per file.
    #[serde(default)]
    output_mode: OutputMode,
    /// Lines around each match.
    #[schemars(range(max = 100))]
    context: Option<usize>,
    #[serde(default)]
    case_insensitive: bool,
    /// Maximum lines (default: 250).
    #[schemars(range(min = 1, max = 10000))]
    head_limit: Option<usize>,
    /// Let matches span lines.
    #[serde(default)]
    multiline: bool,
    #[serde(default)]
    include_ignored: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    Files,
    Content,
    Count,
}

/// Creates the tool `Grep`, which searches files. (LM-T6)
pub fn grep() -> FunctionTool {
    FunctionTool::new("Grep", DESCRIPTION, |context, arguments: GrepArguments| {
        look(context, move |folder, cancel| search(folder, cancel, &arguments))
    })
    .path_argument("/path")
    .annotations(read_only())
    .reads_locally()
}

const DESCRIPTION: &str = "Search file contents for a regular expression. Includes hidden files; skips \
`.git`, binary files, links and what `.gitignore` names.";

const DEFAULT_HEAD: usize = 250;
const MAX_HEAD: usize = 10_000;
const MAX_CONTEXT: usize = 100;
const MAX_PATTERN_BYTES: usize = 8192;
const MAX_LINE_CHARS: usize = 500;
/// Memory limit of a compiled pattern and its lazily built automaton, in bytes.
const MAX_REGEX_BYTES: usize = 10 * 1024 * 1024;
/// Maximum size of a searched line and, with `multiline`, of a searched file, in bytes.
const MAX_HEAP_BYTES: usize = 64 * 1024 * 1024;

fn search(folder: &WorkingFolder, cancel: &CancellationToken, arguments: &GrepArguments) -> Answer {
    let matcher = compile(arguments)?;
    let filter = arguments.glob.as_deref().map(compile_filter).transpose()?;
    let start = folder.resolve(arguments.path.as_deref().unwrap_or("."))?;
    let mut run = Run::new(cancel, arguments, matcher);
    let metadata = folder.metadata(&start)?;
    let passed = if metadata.is_dir() {
        walk(folder, &start, Ignored::included(arguments.include_ignored), cancel, &mut |entry: Entry<
            '_,
        >| {
            let below = entry.path.strip_prefix(start.as_path()).unwrap_or(entry.path);
            if entry.is_link || filter.as_ref().is_some_and(|filter| !filter.is_match(below)) {
                return Ok(Flow::On);
            }
            match folder.open_entry(entry.parent, entry.name, entry.path) {
                Ok(file) => run.file(file, entry.path),
                Err(_) => {
                    run.failed_files += 1;
                    Ok(Flow::On)
                }
            }
        })?
    } else {
        run.file(folder.open_file(&start)?, start.as_path())?;
        Passed::default()
    };
    let mut text = run.finish(&arguments.pattern);
    passed.note(&mut text);
    Ok(ToolOutput::text(text))
}

fn compile(arguments: &GrepArguments) -> Result<RegexMatcher, Refusal> {
    let pattern = &arguments.pattern;
    if pattern.is_empty() {
        return Err(Refusal::new("the pattern is empty"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        let length = pattern.len();
        return Err(Refusal(format!(
            "the pattern is {length} bytes long; at most {MAX_PATTERN_BYTES} are allowed"
        )));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(arguments.case_insensitive)
        .multi_line(true)
        .dot_matches_new_line(arguments.multiline)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .nest_limit(100);
    if !arguments.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).map_err(|error| {
        let hint = if !arguments.multiline && pattern.contains("\\n") {
            ". Set `multiline` to match across lines"
        } else {
            ""
        };
        Refusal(format!("invalid pattern: {error}{hint}"))
    })
}

/// Compiles a filter of file names. A filter without a slash matches names at any depth, as in ripgrep.
fn compile_filter(filter: &str) -> Result<GlobSet, Refusal> {
    if filter.contains('/') { glob::compile(filter) } else { glob::compile(&format!("**/{filter}")) }
}

/// A search over many files.
struct Run<'a> {
    cancel: &'a CancellationToken,
    mode: OutputMode,
    matcher: RegexMatcher,
    searcher: Searcher,
    head_limit: usize,
    shown: Shown,
    failed_files: usize,
}

/// The lines collected so far.
#[derive(Default)]
struct Shown {
    text: String,
    lines: usize,
}

impl Shown {
    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines += 1;
    }
}

impl<'a> Run<'a> {
    fn new(cancel: &'a CancellationToken, arguments: &GrepArguments, matcher: RegexMatcher) -> Self {
        let context = match arguments.output_mode {
            OutputMode::Content => arguments.context.unwrap_or(0).min(MAX_CONTEXT),
            OutputMode::Files | OutputMode::Count => 0,
        };
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .multi_line(arguments.multiline)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_HEAP_BYTES))
            .build();
        Self {
            cancel,
            mode: arguments.output_mode,
            matcher,
            searcher,
            head_limit: arguments.head_limit.unwrap_or(DEFAULT_HEAD).clamp(1, MAX_HEAD),
            shown: Shown::default(),
            failed_files: 0,
        }
    }

    /// Searches a file.
    fn file(&mut self, file: File, path: &Path) -> Result<Flow, Refusal> {
        let path = path.to_string_lossy();
        let mut sink = FileSink {
            path: &path,
            mode: self.mode,
            // Request one more line than is displayed, to detect further matches.
            lines_left: (self.head_limit + 1).saturating_sub(self.shown.lines),
            lines: Vec::new(),
            matches: 0,
            is_binary: false,
        };
        let reader = Cancellable { file, cancel: self.cancel };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut sink);
        if self.cancel.is_cancelled() {
            return Err(Refusal::cancelled());
        }
        if searched.is_err() {
            self.failed_files += 1;
        }
        if sink.matches > 0 && !sink.is_binary {
            match self.mode {
                OutputMode::Files => self.shown.push(&path),
                OutputMode::Count => self.shown.push(&format!("{path}:{}", sink.matches)),
                OutputMode::Content => sink.lines.iter().for_each(|line| self.shown.push(line)),
            }
        }
        Ok(if self.shown.lines > self.head_limit { Flow::Stop } else { Flow::On })
    }

    fn finish(self, pattern: &str) -> String {
        let Self { shown: Shown { mut text, lines }, head_limit, failed_files, .. } = self;
        if lines == 0 {
            text.push_str(&format!("[no match for `{pattern}`]\n"));
        }
        if lines > head_limit {
            let end = text.match_indices('\n').nth(head_limit - 1).map_or(text.len(), |(at, _)| at + 1);
            text.truncate(end);
            text.push_str(&format!(
                "[the first {head_limit} lines; narrow the search or raise `head_limit`]\n"
            ));
        }
        if failed_files > 0 {
            text.push_str(&format!("[{failed_files} files could not be searched]\n"));
        }
        text
    }
}

/// Collects the matching lines of a file.
struct FileSink<'a> {
    path: &'a str,
    mode: OutputMode,
    lines_left: usize,
    lines: Vec<String>,
    matches: usize,
    is_binary: bool,
}

impl FileSink<'_> {
    /// Adds a line. Returns whether another line fits.
    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8]) -> bool {
        if self.lines.len() < self.lines_left {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_end_matches(['\n', '\r']);
            let (line, rest) = match line.char_indices().nth(MAX_LINE_CHARS) {
                Some((end, _)) => (&line[..end], " […]"),
                None => (line, ""),
            };
            let (path, number) = (self.path, number.unwrap_or(0));
            self.lines.push(format!("{path}{mark}{number}{mark}{line}{rest}"));
        }
        self.lines.len() < self.lines_left
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += found.lines().count();
        match self.mode {
            OutputMode::Files => Ok(false),
            OutputMode::Count => Ok(true),
            OutputMode::Content => {
                let first = found.line_number();
                for (nth, line) in found.lines().enumerate() {
                    if !self.push(first.map(|first| first + nth as u64), ':', line) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push(context.line_number(), '-', context.bytes()))
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        if self.lines.len() < self.lines_left {
            self.lines.push("--".to_owned());
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// A file whose reading stops on cancellation.
struct Cancellable<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}
