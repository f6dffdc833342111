//! Formats of answers.

use clap::ValueEnum;

/// Formats.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// The answer as JSON
    Json,
    /// The answer as YAML
    Yaml,
    /// A table with more in it
    Wide,
    /// Names only, one a line
    Name,
}
