//! Ends what this process started when this process dies in any way, SIGKILL included.
//!
//! A shell reads a pipe whose other end only we hold. Over it we tell which processes and
//! directories exist for our sake. When we die the kernel closes the pipe, and the shell, in a
//! process group of its own so that Ctrl-C does not reach it, ends and removes what is left.
//! (`PR_SET_PDEATHSIG` would need `unsafe`, and fires when the spawning *thread* ends.)

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

/// A pid alone could be recycled; pid and start time together name one process.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
newline='
'
pids='' dirs='' links='' groups=''
# The words of the first argument but the second.
without() {
  kept=''
  for word in $1; do [ "$word" = "$2" ] || kept="$kept $word"; done
}
while IFS= read -r line; do
  op=${line%% *} rest=${line#* }
  case $op in
    +) pids="$rest $pids" ;;
    -) without "$pids" "$rest"; pids=$kept ;;
    dir) dirs="$dirs$rest$newline" ;;
    nodir) kept=''
       IFS=$newline
       for d in $dirs; do [ "$d" = "$rest" ] || kept="$kept$d$newline"; done
       unset IFS
       dirs=$kept ;;
    link) links="$links $rest" ;;
    nolink) without "$links" "$rest"; links=$kept ;;
    group) groups="$groups $rest" ;;
    nogroup) without "$groups" "$rest"; groups=$kept ;;
  esac
done
alive() {
  { read -r stat <"/proc/${1%:*}/stat"; } 2>/dev/null || return 1
  started=${1#*:}
  set -- ${stat##*) }
  [ "$1" != Z ] && [ "${20}" = "$started" ]
}
for p in $pids; do
  if alive "$p"; then kill -TERM "${p%:*}"; kill -CONT "${p%:*}"; fi
done 2>/dev/null
tries=0
while [ $tries -lt 30 ]; do
  left=''
  for p in $pids; do if alive "$p"; then left=yes; fi; done
  [ -n "$left" ] || break
  sleep 0.1
  tries=$((tries + 1))
done
for p in $pids; do if alive "$p"; then kill -KILL "${p%:*}"; fi; done 2>/dev/null
PATH=$PATH:/usr/sbin:/sbin
for l in $links; do ip link delete "$l"; done 2>/dev/null
# The kernel may still be ending what runs in them.
tries=0
while [ $tries -lt 50 ]; do
  left=''
  for g in $groups; do
    for d in /sys/fs/cgroup/"$g" /sys/fs/cgroup/*/"$g"; do
      [ -d "$d" ] || continue
      left=yes
      find "$d" -depth -type d -exec rmdir {} \;
    done
  done
  [ -n "$left" ] || break
  sleep 0.1
  tries=$((tries + 1))
done 2>/dev/null
IFS=$newline
for d in $dirs; do rm -rf -- "$d"; done
"#;

static SHELL: Mutex<Option<Child>> = Mutex::new(None);

/// From now on the process ends with us.
pub(crate) fn guard(pid: u32, start_time: u64) -> Result<()> {
    tell(&format!("+ {pid}:{start_time}"))
}

/// The process has ended, or shall outlive us.
pub(crate) fn release(pid: u32, start_time: u64) -> Result<()> {
    tell(&format!("- {pid}:{start_time}"))
}

/// From now on the directory is removed when we end.
pub(crate) fn guard_directory(path: &Path) -> Result<()> {
    let path = path
        .to_str()
        .context("a data directory's path is not UTF-8")?;
    ensure!(
        !path.contains('\n'),
        "a data directory's path has a line break: {path:?}"
    );
    tell(&format!("dir {path}"))
}

/// From now on the network device is deleted when we end.
pub fn guard_link(name: &str) -> Result<()> {
    tell(&format!("link {name}"))
}

/// The network device is gone, or shall outlive us.
pub fn release_link(name: &str) -> Result<()> {
    tell(&format!("nolink {name}"))
}

/// From now on the cgroups of this name are removed when we end, once what ran in them has.
pub fn guard_cgroup(name: &str) -> Result<()> {
    tell(&format!("group {name}"))
}

/// The cgroups are gone, or shall outlive us.
pub fn release_cgroup(name: &str) -> Result<()> {
    tell(&format!("nogroup {name}"))
}

/// The directory is gone, or shall outlive us.
pub(crate) fn release_directory(path: &Path) -> Result<()> {
    tell(&format!("nodir {}", path.display()))
}

fn tell(line: &str) -> Result<()> {
    let mut shell = SHELL.lock().unwrap_or_else(PoisonError::into_inner);
    if shell.is_none() {
        *shell = Some(start()?);
    }
    let pipe = shell.as_mut().and_then(|child| child.stdin.as_mut());
    let pipe = pipe.context("the watchdog has no pipe")?;
    writeln!(pipe, "{line}").context("telling the watchdog (/bin/sh) what to end with us")
}

fn start() -> Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", SCRIPT, "carillon-testbed-watchdog"])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the watchdog: /bin/sh is needed")
}
