//! Starts xtask, built with the features of the whole workspace: what it and the operator have in common is then compiled
//! once. An alias of cargo cannot ask for that from each directory.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--manifest-path"])
        .arg(workspace)
        .args(["--bin", "xtask", "--"])
        .args(env::args_os().skip(1));
    // What is told of this package is not of the next one, and build scripts may run again for it.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    let error = command.exec();
    eprintln!("{}: {error}", command.get_program().display());
    ExitCode::FAILURE
}
