//! Ctrl-C: the first ends what is under way in good order, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// As a shell reports a program that SIGINT ended.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether somebody wants us to end.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP are only noted. The test bed's watchdog cleans up
    /// when a second one ends us.
    pub(crate) fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let code = i32::from(EXIT_CODE);
            flag::register_conditional_shutdown(signal, code, flag.clone())
                .and_then(|_| flag::register(signal, flag.clone()))
                .with_context(|| format!("catching signal {signal}"))?;
        }
        Ok(Self(flag))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once somebody wants us to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.came() {
            bail!("interrupted");
        }
        Ok(())
    }
}
