//! Nodes in tables: by where they stand, and with the checks that decide.

use std::fmt::Debug;

use anyhow::Result;
use carillon_plan::view::broadcast_job::outcomes::SAMPLE;
use carillon_plan::view::daemon_set::known::Known;
use carillon_plan::view::groups::Group;
use carillon_plan::view::node_checks::{CheckResult, Finding, On};
use serde::Serialize;

use crate::render::{Cell, Format, Screen, Table, Tone, indented, sample};

/// Nodes by where they stand and why, or their names.
pub(crate) fn print_groups<P: Copy + Debug>(
    (groups, nodes): (&[Group<P>], usize),
    tone: impl Fn(P) -> Tone,
    (format, headers): (Option<Format>, bool),
    screen: &mut Screen,
) -> Result<()> {
    if format == Some(Format::Name) {
        for name in groups.iter().flat_map(|group| &group.nodes) {
            screen.line(&format!("node/{name}"))?;
        }
        return Ok(());
    }
    let word = |place| Cell::new(format!("{place:?}"), tone(place));
    let table = group_table(groups, word, format == Some(Format::Wide));
    screen.table(&table, headers)?;
    screen.line(&format!("{nodes:<7} in all"))
}

/// Nodes that are explained one after the other, as a document, or by name.
pub(crate) fn print_each<T: Serialize>(
    explained: &[T],
    name: impl Fn(&T) -> &str,
    format: Option<Format>,
    screen: &mut Screen,
    print: impl Fn(&T, &mut Screen) -> Result<()>,
) -> Result<()> {
    if screen.documents(format, explained, true)? {
        return Ok(());
    }
    for (at, one) in explained.iter().enumerate() {
        if format == Some(Format::Name) {
            screen.line(&format!("node/{}", name(one)))?;
            continue;
        }
        if at > 0 {
            screen.blank()?;
        }
        print(one, screen)?;
    }
    Ok(())
}

/// A line for each group; the place as `word` has it.
pub(crate) fn group_table<P: Copy>(
    groups: &[Group<P>],
    word: impl Fn(P) -> Cell,
    wide: bool,
) -> Table {
    let mut table = Table::new(&["NODES", "PLACE", "REASON", "AMONG THEM", "FOR EXAMPLE"])
        .cut_unless(wide, &["AMONG THEM", "FOR EXAMPLE"]);
    for group in groups {
        let shown = if wide { usize::MAX } else { SAMPLE };
        table.row([
            group.count.to_string().into(),
            word(group.place),
            Cell::from(&group.reason),
            sample(&group.nodes, shown).into(),
            example(&group.example, &group.nodes).into(),
        ]);
    }
    table
}

/// What decides, for the first of some nodes.
pub(crate) fn example(text: &str, nodes: &[String]) -> String {
    match nodes.first() {
        Some(node) if !text.is_empty() => format!("{node}: {text}"),
        _ => String::new(),
    }
}

/// Each check, and what to write where one does not pass.
pub(crate) fn print_checks(
    results: &[CheckResult],
    template: &str,
    headers: bool,
    screen: &mut Screen,
) -> Result<()> {
    screen.table(&checks(results), headers)?;
    for finding in results.iter().flat_map(|check| &check.findings) {
        print_finding(finding, template, screen)?;
    }
    Ok(())
}

/// A line for each check.
pub(crate) fn checks(checks: &[CheckResult]) -> Table {
    let mut table = Table::new(&["CHECK", "RESULT", "FOUND"]).cut(&["FOUND"]);
    for check in checks {
        let (result, tone) = if check.passed {
            ("pass", Tone::Good)
        } else {
            ("FAIL", Tone::Bad)
        };
        table.row([
            check.check.into(),
            Cell::new(result, tone),
            Cell::from(&check.found),
        ]);
    }
    table
}

/// What decides, and what to write to change it: on the node, or in the `template`.
pub(crate) fn print_finding(finding: &Finding, template: &str, screen: &mut Screen) -> Result<()> {
    screen.blank()?;
    screen.line(&format!("{}: {}", finding.reason, finding.text))?;
    for (number, remedy) in finding.remedies.iter().enumerate() {
        let or = if number == 0 { "" } else { "or " };
        let place = match remedy.on {
            On::Node => String::new(),
            On::Template => format!(", in {template}"),
        };
        let colon = if remedy.write.is_empty() { "" } else { ":" };
        screen.line(&format!("  {or}{}{place}{colon}", remedy.what))?;
        screen.text(&indented(&remedy.write, 6))?;
    }
    Ok(())
}

/// What is left out, as whoever asks may not read it.
pub(crate) fn tell_unknown(known: &Known, screen: &mut Screen) {
    if known.pods.is_none() {
        screen.aside("note: you may not list pods: what is on the nodes is not known");
    }
    if known.revisions.is_none() {
        screen.aside(
            "note: you may not list ControllerRevisions: pods are told by their hash, and which nodes are excused \
             may be wrong",
        );
    }
}
