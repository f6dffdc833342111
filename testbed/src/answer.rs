//! Programs that are run to their end, for what they print.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What a command prints, without space around it; an error with what it says of it when it fails.
pub fn answer(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let words = || {
        let program = command.get_program();
        let words = [program].into_iter().chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    };
    let output = output.with_context(|| format!("running {}", words()))?;
    ensure!(
        output.status.success(),
        "{} ({}): {}",
        words(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_told_with_its_words_and_what_it_says() {
        let shell = |script: &str| answer(Command::new("/bin/sh").args(["-c", script]));
        assert_eq!(shell("echo hello").expect("printed"), "hello");
        let error = shell("echo no >&2; exit 3").expect_err("failed");
        let error = error.to_string();
        assert!(error.contains("exit 3 (exit status: 3): no"), "{error}");
        let error = answer(&mut Command::new("/nowhere/at/all")).expect_err("no program");
        assert_eq!(error.to_string(), "running /nowhere/at/all");
    }
}
