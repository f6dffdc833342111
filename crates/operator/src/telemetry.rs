//! Log lines: JSON for machines, text for people.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::args::{LogFormat, LogLevel};

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
fn filter(level: LogLevel) -> EnvFilter {
    let own = match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let libraries = match level {
        LogLevel::Error => "error",
        _ => "warn",
    };
    EnvFilter::new(format!(
        "{libraries},carillon={own},carillon_operator={own},carillon_plan={own},\
         kube_client=error,kube_client::client=off"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_stay_quiet_while_we_talk() {
        let filter = filter(LogLevel::Trace).to_string();
        for directive in ["carillon_operator=trace", "kube_client::client=off"] {
            assert!(filter.contains(directive), "{filter}");
        }
    }
}
