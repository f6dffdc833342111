//! Log lines: JSON for machines, text for people.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::{fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::args::{LogFormat, LogLevel};

/// What logs under our own names.
const OURS: [&str; 3] = ["carillon", "carillon_operator", "carillon_plan"];

/// Starts logging to stdout. Call once, before anything is logged.
///
/// # Errors
/// When logging was started before.
pub fn init(format: LogFormat, level: LogLevel) -> anyhow::Result<()> {
    let registry = tracing_subscriber::registry().with(filter(level));
    match format {
        LogFormat::Json => registry
            .with(fmt::layer().json().flatten_event(true))
            .try_init()?,
        LogFormat::Text => registry
            .with(fmt::layer().with_ansi(std::io::stdout().is_terminal()))
            .try_init()?,
    }
    Ok(())
}

/// Our own level for ourselves. The libraries below log whole objects at `warn` and every byte at
/// `trace`; what matters of that reaches us as errors.
///
/// Not an `EnvFilter`: that compiles regular expressions.
fn filter(level: LogLevel) -> Targets {
    let own = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new()
        .with_default(own.min(LevelFilter::WARN))
        .with_targets(OURS.map(|target| (target, own)))
        .with_target("kube_client", LevelFilter::ERROR)
        .with_target("kube_client::client", LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_stay_quiet_while_we_talk() {
        let all = filter(LogLevel::Trace);
        for target in OURS {
            assert!(all.would_enable(target, &Level::TRACE), "{target}");
        }
        assert!(all.would_enable("carillon_operator::watch", &Level::TRACE));
        assert!(
            all.would_enable("hyper", &Level::WARN) && !all.would_enable("hyper", &Level::INFO)
        );
        assert!(!all.would_enable("kube_client::client", &Level::ERROR));
        assert!(!all.would_enable("kube_client::config", &Level::WARN));
        let few = filter(LogLevel::Error);
        assert!(
            !few.would_enable("hyper", &Level::WARN) && !few.would_enable("carillon", &Level::WARN)
        );
    }
}
