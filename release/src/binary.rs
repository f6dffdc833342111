//! Programs as static binaries, the same from every clone.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use carillon_image::Platform;
use carillon_testbed::carillon::{Program, workspace};
use carillon_testbed::{answer, cargo};
use serde_json::Value;

use crate::packages;

/// A binary, and what is in it.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    /// Ids of the packages that were compiled for the platform. What only the build runs is not among them.
    pub(crate) packages: BTreeSet<String>,
    pub(crate) tools: Tools,
}

/// What compiles and links, and is partly linked in, by version.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) glibc: String,
    pub(crate) gcc: String,
    pub(crate) rust: String,
}

/// The target of a platform. With musl the standard library has to come from rustup's server, which not every build
/// machine reaches; with glibc a package of the distribution is enough.
pub(crate) fn triple(platform: Platform) -> &'static str {
    match platform {
        Platform::Amd64 => "x86_64-unknown-linux-gnu",
        Platform::Arm64 => "aarch64-unknown-linux-gnu",
    }
}

fn is_host(platform: Platform) -> bool {
    let host = match platform {
        Platform::Amd64 => "x86_64",
        Platform::Arm64 => "aarch64",
    };
    env::consts::ARCH == host
}

/// The C compiler of a platform, which links, and its Debian package.
fn compiler(platform: Platform) -> (&'static str, &'static str) {
    match platform {
        _ if is_host(platform) => ("cc", "gcc libc6-dev"),
        Platform::Amd64 => (
            "x86_64-linux-gnu-gcc",
            "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
        ),
        Platform::Arm64 => (
            "aarch64-linux-gnu-gcc",
            "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        ),
    }
}

pub(crate) fn build(program: Program, platform: Platform) -> Result<Binary> {
    check_tools(platform)?;
    let (package, name) = program.target();
    let triple = triple(platform);
    let (compiler, _) = compiler(platform);
    let variable = triple.replace('-', "_");
    let output = cargo::command()
        .args([
            "build",
            "--release",
            "--locked",
            "--message-format=json-render-diagnostics",
        ])
        .args(["--package", package, "--bin", name, "--target", triple])
        .env("CARGO_ENCODED_RUSTFLAGS", flags()?.join("\u{1f}"))
        .env("CARGO_INCREMENTAL", "0")
        .env(
            format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()),
            compiler,
        )
        .env(format!("CC_{variable}"), compiler)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo build")?;
    ensure!(
        output.status.success(),
        "cargo build for {platform}: {}",
        output.status
    );
    let built = String::from_utf8_lossy(&output.stdout);
    let tools = tools(compiler)?;
    let binary = read(&built, name, triple, tools)?;
    check_static(&binary.path)?;
    Ok(binary)
}

/// No path of this machine gets into the binary, and none of a library of this machine is looked for.
fn flags() -> Result<Vec<String>> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let root = workspace().canonicalize().context("the workspace")?;
    let target = packages::target_directory()?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // Where the sources of the standard library are installed, the compiler finds them, and names them by their path.
    let sysroot = answer(Command::new("rustc").args(["--print", "sysroot"]))?;
    let verbose = answer(Command::new("rustc").arg("-vV"))?;
    let mut lines = verbose.lines();
    let commit = lines.find_map(|line| line.strip_prefix("commit-hash: "));
    let commit = commit.with_context(|| format!("rustc names no commit: {verbose}"))?;
    let library = Path::new(&sysroot).join("lib/rustlib/src/rust");
    // The last that fits counts, and these may lie in the workspace.
    Ok(vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        remap(&root, "/carillon"),
        remap(&target, "/target"),
        remap(&home, "/cargo"),
        remap(&library, &format!("/rustc/{commit}")),
    ])
}

/// What cargo says that it built.
fn read(messages: &str, name: &str, triple: &str, tools: Tools) -> Result<Binary> {
    let mut packages = BTreeSet::new();
    let mut executable = None;
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("a message of cargo")?;
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let files = message["filenames"].as_array().into_iter().flatten();
        let for_platform = |file: &Value| {
            let path = Path::new(file.as_str().unwrap_or_default());
            path.components().any(|part| part.as_os_str() == triple)
        };
        if files.clone().any(for_platform)
            && let Some(id) = message["package_id"].as_str()
        {
            packages.insert(id.to_owned());
        }
        if message["target"]["name"] == name
            && let Some(path) = message["executable"].as_str()
        {
            executable = Some(PathBuf::from(path));
        }
    }
    Ok(Binary {
        path: executable.with_context(|| format!("cargo build named no program called {name}"))?,
        packages,
        tools,
    })
}

fn check_tools(platform: Platform) -> Result<()> {
    let triple = triple(platform);
    let libdir =
        answer(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    ensure!(
        Path::new(&libdir).is_dir(),
        "no Rust standard library for {triple}: rustup target add {triple}"
    );
    let (compiler, packages) = compiler(platform);
    answer(Command::new("readelf").arg("--version")).context("apt-get install binutils")?;
    let archive = answer(Command::new(compiler).arg("-print-file-name=libc.a"));
    match archive {
        // A compiler that does not find it answers with the name alone.
        Ok(path) if Path::new(&path).is_absolute() => Ok(()),
        Ok(_) => {
            bail!("{compiler} finds no libc.a to link {platform} with: apt-get install {packages}")
        }
        Err(error) => bail!("{platform} needs {compiler}: apt-get install {packages} ({error:#})"),
    }
}

/// Those of this machine.
pub(crate) fn host_tools() -> Result<Tools> {
    tools("cc")
}

fn tools(compiler: &str) -> Result<Tools> {
    Ok(Tools {
        glibc: glibc(compiler)?,
        gcc: answer(Command::new(compiler).arg("-dumpfullversion"))?,
        rust: rust()?,
    })
}

/// The version of glibc, from the name of the release in its header: the binary contains that one.
fn glibc(compiler: &str) -> Result<String> {
    let script = "printf '#include <features.h>\\n__GLIBC__ __GLIBC_MINOR__\\n' | \"$0\" -E -P -x c - | tail -n 1";
    let version = answer(Command::new("sh").args(["-c", script, compiler]))?;
    let numbers: Vec<&str> = version.split_whitespace().collect();
    match numbers[..] {
        [major, minor] if major.parse::<u32>().is_ok() => Ok(format!("{major}.{minor}")),
        _ => bail!(
            "{compiler} says that its C library is {version:?}; expected the version of glibc"
        ),
    }
}

/// `1.95.0`
fn rust() -> Result<String> {
    let version = answer(Command::new("rustc").arg("--version"))?;
    let number = version.split_whitespace().nth(1);
    number
        .map(str::to_owned)
        .with_context(|| format!("rustc says {version:?}; expected its version"))
}

/// A binary that asks for a dynamic loader does not start in an image that has none.
fn check_static(path: &Path) -> Result<()> {
    let headers = answer(
        Command::new("readelf")
            .args(["--program-headers", "--wide"])
            .arg(path),
    )?;
    ensure!(
        !headers.contains("INTERP"),
        "{} is linked dynamically: it asks for a loader",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_while_building_is_not_in_the_binary() {
        let message = |id: &str, file: &str, more: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","filenames":["{file}"]{more}}}"#
            )
        };
        let program = r#","target":{"name":"carillon"},"executable":"/t/x86_64-unknown-linux-gnu/release/carillon""#;
        let messages = [
            message("serde_derive 1", "/t/release/deps/libserde_derive.so", ""),
            message(
                "serde 1",
                "/t/x86_64-unknown-linux-gnu/release/deps/libserde.rlib",
                "",
            ),
            r#"{"reason":"build-script-executed","package_id":"ring 1"}"#.to_owned(),
            message(
                "carillon 1",
                "/t/x86_64-unknown-linux-gnu/release/carillon",
                program,
            ),
        ];
        let tools = || Tools {
            glibc: "2.36".to_owned(),
            gcc: "12.2.0".to_owned(),
            rust: "1.95.0".to_owned(),
        };
        let binary = read(
            &messages.join("\n"),
            "carillon",
            "x86_64-unknown-linux-gnu",
            tools(),
        )
        .expect("a binary");
        let packages: Vec<&str> = binary.packages.iter().map(String::as_str).collect();
        assert_eq!(packages, ["carillon 1", "serde 1"]);
        assert_eq!(
            binary.path,
            Path::new("/t/x86_64-unknown-linux-gnu/release/carillon")
        );
        assert!(read("", "carillon", "x", tools()).is_err());
    }
}
