//! A program is built from a copy of its module's source in which a defect is mended.
//!
//! Where a program of the test bed spoils what is tested or measured, and no release of it does
//! better, it is mended here. A release whose text is another one fails the build, so that no
//! amendment stays without being looked at.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::go;

/// What is mended in a Go module.
pub(super) struct Amendment {
    pub(super) module: &'static str,
    pub(super) mends: &'static [Mend],
}

/// `was` becomes `is` in one file.
pub(super) struct Mend {
    pub(super) file: &'static str,
    pub(super) was: &'static str,
    pub(super) is: &'static str,
}

pub(super) const KWOK: Amendment = Amendment {
    module: "sigs.k8s.io/kwok",
    mends: &[
        WATCHES_GO_ON,
        PODS_HEED_LEASES,
        PODS_ARE_LOOKED_AT_ONCE_THE_LEASE_IS_SEEN,
        WHAT_WAS_NOT_ANSWERED_IS_TRIED_AGAIN,
        displaces_nothing_newer("pkg/kwok/controllers/pod_controller.go"),
        displaces_nothing_newer("pkg/kwok/controllers/node_controller.go"),
        A_DELETION_IS_FOR_ONE_POD,
    ],
};

/// It begins each watch at resourceVersion 0, and so is told of all pods there are each time that
/// the API server closes one. With thousands of pods it falls behind for it, and the next is closed.
const WATCHES_GO_ON: Mend = Mend {
    file: "pkg/utils/informer/event.go",
    was: "if !o.EnableListPager || o.EnableStreamWatch {",
    is: "if opts.ResourceVersion == \"\" && (!o.EnableListPager || o.EnableStreamWatch) {",
};

/// It starts its controllers in the order of a Go map, which is random. When the one for pods comes
/// first, there is no function yet that asks for leases, and it acts for nodes it does not hold.
const PODS_HEED_LEASES: Mend = Mend {
    file: "pkg/kwok/controllers/controller.go",
    was: "ReadOnlyFunc:  c.readOnlyFunc,",
    is: "ReadOnlyFunc: func(node string) bool { return c.readOnlyFunc != nil && c.readOnlyFunc(node) },",
};

/// It looks at the pods of a node as soon as it has made the node's lease, often before it has seen
/// that lease, and then leaves them alone until they change.
const PODS_ARE_LOOKED_AT_ONCE_THE_LEASE_IS_SEEN: Mend = Mend {
    file: "pkg/kwok/controllers/controller.go",
    was: "\t\topt := informer.Option{\n",
    is: "\t\tif _, managed := c.nodes.Get(nodeName); managed && c.readOnlyFunc != nil && c.readOnlyFunc(nodeName) {
\t\t\ttime.AfterFunc(100*time.Millisecond, func() { c.podOnNodeManageQueue.Add(nodeName) })
\t\t\tcontinue
\t\t}
\t\topt := informer.Option{\n",
};

/// It repeats a write only where the connection was refused or the API server was busy. One whose connection broke, as
/// when the API server is killed, is lost, and the pod stays as it is until it changes.
const WHAT_WAS_NOT_ANSWERED_IS_TRIED_AGAIN: Mend = Mend {
    file: "pkg/kwok/controllers/utils.go",
    was: "\t// ignore all other cases\n\treturn false\n",
    is: "\treturn apierrors.IsInternalError(err) || apierrors.ReasonForError(err) == \"\"\n",
};

/// It repeats a write in the place of what it has planned since for a newer version of the pod or node.
const fn displaces_nothing_newer(file: &'static str) -> Mend {
    Mend {
        file,
        was: "\told, loaded := c.delayQueueMapping.Swap(job.Key, job)
\tif loaded {
",
        is: "\told, loaded := c.delayQueueMapping.Swap(job.Key, job)
\tif loaded {
\t\thas, gets := old.Resource.ResourceVersion, job.Resource.ResourceVersion
\t\tif len(has) > len(gets) || len(has) == len(gets) && has > gets {
\t\t\tc.delayQueueMapping.Store(job.Key, old)
\t\t\treturn
\t\t}
",
    }
}

/// It deletes by name. The pod it means may be gone, and another one have the name.
const A_DELETION_IS_FOR_ONE_POD: Mend = Mend {
    file: "pkg/kwok/controllers/pod_controller.go",
    was: "Pods(pod.Namespace).Delete(ctx, pod.Name, deleteOpt)",
    is: "Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
\t\tGracePeriodSeconds: deleteOpt.GracePeriodSeconds,
\t\tPreconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
\t})",
};

/// Copies the module into `workshop`, mended. Returns the flag that makes `go build` use the copy.
pub(super) fn amended(amendment: &Amendment, source: &Path, workshop: &Path) -> Result<OsString> {
    let Amendment { module, mends } = amendment;
    let copy = workshop.join("module");
    copy_tree(&downloaded(module, source)?, &copy)?;
    for mend in *mends {
        apply(mend, &copy).with_context(|| format!("mending {module}"))?;
    }
    let manifest = fs::read_to_string(source.join("go.mod"))?;
    let quoted = serde_json::to_string(&copy)?;
    let file = workshop.join("go.mod");
    fs::write(&file, format!("{manifest}\nreplace {module} => {quoted}\n"))?;
    fs::copy(source.join("go.sum"), workshop.join("go.sum"))?;
    let mut flag = OsString::from("-modfile=");
    flag.push(file);
    Ok(flag)
}

/// Where the module's source lies.
fn downloaded(module: &str, source: &Path) -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "Dir")]
        dir: PathBuf,
    }

    let output = go()
        .args(["mod", "download", "-json", module])
        .current_dir(source)
        .output()
        .context("starting go mod download")?;
    if !output.status.success() {
        bail!(
            "go mod download {module} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("what go mod download says of {module}"))?;
    Ok(answer.dir)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else {
            // Not the file's permissions: the module cache is read-only.
            fs::write(&to, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn apply(mend: &Mend, copy: &Path) -> Result<()> {
    let file = copy.join(mend.file);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let times = text.matches(mend.was).count();
    if times != 1 {
        bail!(
            "{} has the text to be mended {times} times instead of once; look whether this release \
             still needs it:\n{}",
            mend.file,
            mend.was
        );
    }
    fs::write(&file, text.replace(mend.was, mend.is))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_text_is_mended_once_and_one_that_is_another_is_refused() {
        let dir = std::env::temp_dir().join(format!("carillon-amendment-{}", process::id()));
        let inner = dir.join("pkg/utils/informer");
        fs::create_dir_all(&inner).expect("a directory");
        let file = inner.join("event.go");
        fs::write(&file, format!("a\n{}\nb", WATCHES_GO_ON.was)).expect("a file");

        apply(&WATCHES_GO_ON, &dir).expect("the text is there once");
        let mended = fs::read_to_string(&file).expect("the file");
        assert_eq!(mended, format!("a\n{}\nb", WATCHES_GO_ON.is));

        let error = apply(&WATCHES_GO_ON, &dir).expect_err("it is another one now");
        assert!(error.to_string().contains("0 times"), "{error}");
        fs::remove_dir_all(&dir).expect("the directory");
    }
}
