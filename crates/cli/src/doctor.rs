//! `doctor`: what is wrong with an installation and with what it serves.

mod installation;
mod objects;
mod shadow;
mod webhooks;

use anyhow::Result;
use carillon_plan::view::doctor::{Check, Finding, Outcome, Report, Severity};

use self::installation::Installation;
use self::objects::Objects;
use crate::client::Api;
use crate::exit::{DONE, NOT_ALL};
use crate::flags::{Global, Output};
use crate::render::{Cell, Format, Screen, Table, Tone, count};

/// Say what is wrong with Carillon in this cluster, and with what it serves
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Looks at CRDs, operators, leases, rights, webhooks, quotas, taints, finalizers, and at what waits. Changes
nothing; of pods it asks by dry run. In all namespaces, or the one of -n. What you may not read is said to be
not checked.

Exit codes: 0 nothing is wrong, 1 error, 2 there are warnings or problems.

Examples:
  kubectl carillon doctor
  kubectl carillon doctor -n team-a

  # Also what Carillon would do otherwise than kube-controller-manager, before it serves kinds of Kubernetes
  kubectl carillon doctor --shadow")]
pub(crate) struct Doctor {
    /// Also plan for each DaemonSet of apps/v1 and each CronJob and Job of batch/v1, and say what Carillon would do
    /// now that kube-controller-manager does not. Nothing is done
    #[arg(long)]
    shadow: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) async fn run(
    api: &Api,
    global: &Global,
    args: &Doctor,
    screen: &mut Screen,
) -> Result<u8> {
    let namespace = global.namespace.as_deref();
    let found = Installation::read(api, screen).await?;
    let objects = Objects::read(api, namespace, args.shadow).await?;
    let mut report = Report::default();
    let checks = &mut report.checks;
    found.judge(checks);
    checks.push(objects.controllers(api, &found.operators).await?);
    checks.push(installation::rights(api, &found.operators).await?);
    let subjects = objects.subjects(&found.operators);
    checks.push(webhooks::check(api, &subjects, &found.operators).await?);
    objects::judge(api, &subjects, namespace, checks).await?;
    checks.push(objects.finalizers(api, namespace, &found).await?);
    checks.push(objects.waiting());
    checks.push(installation::own_rights(api, namespace).await?);
    if args.shadow {
        checks.push(shadow::check(api, &objects, namespace, &found.operators).await?);
    }
    let code = if report.is_well() { DONE } else { NOT_ALL };
    if !screen.document(args.output.output, &report)? {
        print(&report, global, &args.output, screen)?;
    }
    Ok(code)
}

fn print(report: &Report, global: &Global, output: &Output, screen: &mut Screen) -> Result<()> {
    let findings = || report.checks.iter().flat_map(|check| &check.findings);
    if output.output == Some(Format::Name) {
        for finding in findings().filter(|one| one.severity > Severity::Info) {
            screen.line(&finding.where_)?;
        }
        return Ok(());
    }
    let wide = output.output == Some(Format::Wide);
    screen.table(&table(&report.checks, wide), !output.no_headers)?;
    for finding in findings() {
        screen.blank()?;
        print_finding(finding, global, screen)?;
    }
    screen.blank()?;
    let (problems, warnings) = (
        report.count(Severity::Problem),
        report.count(Severity::Warning),
    );
    let (problems, warnings) = (count(problems, "problem"), count(warnings, "warning"));
    screen.line(&format!("{problems}, {warnings}"))
}

fn table(checks: &[Check], wide: bool) -> Table {
    let mut table = Table::new(&["CHECK", "RESULT", "FOUND"]).cut_unless(wide, &["FOUND"]);
    for check in checks {
        let (result, tone) = match check.result {
            Outcome::Ok => ("ok", Tone::Good),
            Outcome::NotChecked => ("not checked", Tone::Faint),
            Outcome::Info => ("note", Tone::Plain),
            Outcome::Warning => ("WARNING", Tone::Care),
            Outcome::Problem => ("PROBLEM", Tone::Bad),
        };
        table.row([
            check.check.into(),
            Cell::new(result, tone),
            Cell::from(&check.found),
        ]);
    }
    table
}

fn print_finding(finding: &Finding, global: &Global, screen: &mut Screen) -> Result<()> {
    let (word, tone) = match finding.severity {
        Severity::Info => ("note", Tone::Plain),
        Severity::Warning => ("WARNING", Tone::Care),
        Severity::Problem => ("PROBLEM", Tone::Bad),
    };
    screen.painted(&[
        (tone, word),
        (
            Tone::Plain,
            &format!(" {}: {}", finding.where_, finding.what),
        ),
    ])?;
    for remedy in &finding.remedies {
        let colon = if remedy.write.is_empty() { "" } else { ":" };
        screen.line(&format!("  {}{colon}", remedy.what))?;
        for line in remedy.write.lines() {
            screen.hint(&format!("      {}", typed(line, global)))?;
        }
    }
    Ok(())
}

/// A command means the cluster that was asked about. One of ours gets the flags that were typed where it is printed,
/// and here the namespace only once; those of others have flags of their own.
fn typed(line: &str, global: &Global) -> String {
    if line.starts_with("kubectl carillon ") {
        return match &global.namespace {
            Some(namespace) => line.replacen(&format!(" -n {namespace}"), "", 1),
            None => line.to_owned(),
        };
    }
    let elsewhere = Global {
        namespace: None,
        ..global.clone()
    };
    let (program, flags) = if line.starts_with("kubectl ") {
        ("kubectl", elsewhere.repeated())
    } else if line.starts_with("helm ") {
        ("helm", elsewhere.repeated_for_helm())
    } else {
        return line.to_owned();
    };
    let rest = line.strip_prefix(program).unwrap_or_default();
    match flags.as_str() {
        "" => line.to_owned(),
        flags => format!("{program} {flags}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_ours_names_the_namespace_once() {
        let line = "kubectl carillon -n ops resume fix";
        let mut global = Global::default();
        assert_eq!(typed(line, &global), line);
        global.namespace = Some("ops".to_owned());
        assert_eq!(typed(line, &global), "kubectl carillon resume fix");
        let theirs = "kubectl describe -n ops ccj/x";
        assert_eq!(typed(theirs, &global), theirs);
    }

    #[test]
    fn a_command_of_others_means_the_cluster_that_was_asked_about() {
        let global = Global {
            namespace: Some("ops".to_owned()),
            context: Some("prod".to_owned()),
            kubeconfig: Some("/k/c".into()),
            as_user: Some("jane".to_owned()),
            ..Global::default()
        };
        for (line, says) in [
            (
                "kubectl describe -n ops ccj/x",
                "kubectl --kubeconfig /k/c --context prod --as jane describe -n ops ccj/x",
            ),
            (
                "helm upgrade carillon charts/carillon",
                "helm --kubeconfig /k/c --kube-context prod --kube-as-user jane upgrade carillon charts/carillon",
            ),
            ("kubectl carillon resume fix", "kubectl carillon resume fix"),
            ("watchNamespaces: [team-a]", "watchNamespaces: [team-a]"),
        ] {
            assert_eq!(typed(line, &global), says);
        }
    }
}
