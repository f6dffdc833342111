//! What is compared when the same objects are served by two controllers, and how.

pub(crate) mod plain;
pub(crate) mod rounds;
pub(crate) mod stage;
pub(crate) mod watched;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Facts by scenario.
pub(crate) type View = BTreeMap<&'static str, BTreeSet<String>>;

/// Who shows a fact that the other does not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Only {
    /// kube-controller-manager.
    Theirs,
    /// We.
    Ours,
}

/// A difference that we know of.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Where it shows. None: anywhere.
    pub(crate) scenarios: &'static [&'static str],
    /// The facts that only one of the two shows, each by a part of it.
    pub(crate) facts: &'static [(Only, &'static str)],
    /// Why it is there, and stays.
    pub(crate) why: &'static str,
    /// Whether it shows in every run; otherwise it depends on who is faster.
    pub(crate) always: bool,
}

/// What the comparison came to.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// How many facts both have.
    pub(crate) same: usize,
    /// Facts that only one has, without a reason.
    pub(crate) unnamed: Vec<String>,
    /// Differences that were seen, with their facts.
    pub(crate) named: Vec<(&'static Difference, Vec<String>)>,
    /// Differences that should have been seen and were not.
    pub(crate) unseen: Vec<&'static Difference>,
}

impl Verdict {
    /// Whether all is as it should be.
    pub(crate) fn is_good(&self) -> bool {
        self.unnamed.is_empty() && self.unseen.is_empty()
    }
}

/// Compares.
pub(crate) fn judge(
    differences: &'static [Difference],
    scenarios: &[&'static str],
    theirs: &View,
    ours: &View,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut named: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for name in scenarios {
        let (theirs, ours) = (&theirs[name], &ours[name]);
        assert!(!theirs.is_empty(), "{name}: nothing to compare");
        verdict.same += theirs.intersection(ours).count();
        let only_theirs = theirs.difference(ours).map(|fact| (Only::Theirs, fact));
        let only_ours = ours.difference(theirs).map(|fact| (Only::Ours, fact));
        for (only, fact) in only_theirs.chain(only_ours) {
            let is_meant = |difference: &Difference| {
                let mut facts = difference.facts.iter();
                let scenarios = difference.scenarios;
                (scenarios.is_empty() || scenarios.contains(name))
                    && facts.any(|(who, part)| *who == only && fact.contains(part))
            };
            let shown = format!(
                "{name}: only {}: {fact}",
                match only {
                    Only::Theirs => "theirs",
                    Only::Ours => "ours",
                }
            );
            match differences.iter().position(is_meant) {
                Some(known) => named.entry(known).or_default().push(shown),
                None => verdict.unnamed.push(shown),
            }
        }
    }
    let is_played = |difference: &Difference| {
        let mut scenarios_of = difference.scenarios.iter();
        difference.scenarios.is_empty() || scenarios_of.any(|name| scenarios.contains(name))
    };
    let must_be_seen = differences
        .iter()
        .enumerate()
        .filter(|(_, difference)| difference.always && is_played(difference));
    verdict.unseen = must_be_seen
        .filter(|(at, _)| !named.contains_key(at))
        .map(|(_, difference)| difference)
        .collect();
    verdict.named = named
        .into_iter()
        .map(|(at, facts)| (&differences[at], facts))
        .collect();
    verdict
}

/// Prints what was compared, and panics unless all is as it should be.
pub(crate) fn print_and_assert(verdict: &Verdict, scenarios: usize) {
    println!(
        "{scenarios} scenarios, {} facts the same; differences with a name:",
        verdict.same
    );
    for (difference, facts) in &verdict.named {
        println!("- {}", difference.why);
        for fact in facts {
            println!("    {fact}");
        }
    }
    assert!(
        verdict.unnamed.is_empty(),
        "differences without a name: {:#?}",
        verdict.unnamed
    );
    assert!(
        verdict.unseen.is_empty(),
        "differences that were not there; take them off the list: {:#?}",
        verdict.unseen
    );
}

/// A path below `apis/GROUP/VERSION/namespaces/NAMESPACE`, from `apis/GROUP/VERSION/PLURAL/NAME`.
pub(crate) fn below(namespace: &str, path: &str) -> String {
    if path.is_empty() {
        return format!("/api/v1/namespaces/{namespace}");
    }
    let at = if path.starts_with("apis/") { 3 } else { 2 };
    let mut parts: Vec<&str> = path.split('/').collect();
    let place = ["namespaces", namespace];
    parts.splice(at..at, place);
    format!("/{}", parts.join("/"))
}

/// One value out of several, later ones win.
pub(crate) fn all_of(values: &[Value]) -> Value {
    let mut all = json!({});
    for value in values {
        merge(&mut all, value);
    }
    all
}

/// Merges objects key by key; other values replace.
pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
