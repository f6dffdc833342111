//! Who sees a metric finds its meaning in `docs/metrics.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use carillon_testbed::carillon::workspace;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, Lit};

/// By name, its labels, where the call that registers it lists them.
type Metrics = BTreeMap<String, BTreeSet<String>>;

#[test]
fn each_metric_stands_in_its_page_with_its_labels() {
    let (registered, page) = (registered(), documented());
    assert!(
        registered.len() > 40,
        "they are registered otherwise: {registered:?}"
    );
    for (name, labels) in &registered {
        let found = page.get(name);
        let found = found.unwrap_or_else(|| panic!("docs/metrics.md has no row for {name}"));
        let missing: Vec<_> = labels.difference(found).collect();
        assert!(
            missing.is_empty(),
            "{name}: docs/metrics.md does not name {missing:?}"
        );
    }
    let gone: Vec<_> = page
        .keys()
        .filter(|name| !registered.contains_key(*name))
        .collect();
    assert!(
        gone.is_empty(),
        "docs/metrics.md tells of what there is not: {gone:?}"
    );
}

#[test]
fn a_metric_is_registered_with_its_name_its_help_and_its_labels() {
    let text = r#"
        fn f() -> Result<()> {
            Ok(Metrics {
                a: gauge(r, "a_b_total", "What it is.", &["kind", "type"])?,
                b: single(r, "c_d", "What that is.")?,
                c: other("e_f", "no help"),
            })
        }
    "#;
    let found = metrics_of(&syn::parse_file(text).unwrap());
    let labels = ["kind", "type"].map(str::to_owned);
    let expected = [
        ("a_b_total".to_owned(), labels.into()),
        ("c_d".to_owned(), BTreeSet::new()),
    ];
    assert_eq!(found, expected.into());
    let rows = "| `a_b`, `c_d` | gauge | `kind` | `x` |\n`g_h` | `e_f` |\n| `process_*` | |";
    let names: Vec<_> = rows_of(rows).into_keys().collect();
    assert_eq!(names, ["a_b", "c_d"]);
}

/// What the operator registers.
fn registered() -> Metrics {
    let mut metrics = Metrics::new();
    read(&workspace().join("crates/operator/src"), &mut metrics);
    metrics
}

fn read(folder: &Path, metrics: &mut Metrics) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, metrics);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            metrics.extend(metrics_of(&file));
        }
    }
}

/// The calls of a file whose second word is a name of a metric, and whose third is a sentence.
fn metrics_of(file: &syn::File) -> Metrics {
    struct Calls(Metrics);

    impl<'a> Visit<'a> for Calls {
        fn visit_expr_call(&mut self, call: &'a ExprCall) {
            let mut given = call.args.iter().skip(1);
            let words = [given.next().and_then(text), given.next().and_then(text)];
            if let [Some(name), Some(help)] = words
                && is_name(&name)
                && help.ends_with('.')
            {
                self.0
                    .insert(name, given.next().map(labels).unwrap_or_default());
            }
            visit::visit_expr_call(self, call);
        }
    }

    let mut calls = Calls(Metrics::new());
    calls.visit_file(file);
    calls.0
}

fn is_name(word: &str) -> bool {
    word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

fn labels(expression: &Expr) -> BTreeSet<String> {
    match expression {
        Expr::Reference(reference) => labels(&reference.expr),
        Expr::Array(array) => array.elems.iter().filter_map(text).collect(),
        _ => BTreeSet::new(),
    }
}

fn documented() -> Metrics {
    rows_of(&fs::read_to_string(workspace().join("docs/metrics.md")).unwrap())
}

/// The names of the first column, and what the third has as labels.
fn rows_of(page: &str) -> Metrics {
    let quoted = |cell: &str| {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut metrics = Metrics::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels: BTreeSet<String> = cells
            .get(3)
            .map(|cell| quoted(cell))
            .unwrap_or_default()
            .into_iter()
            .collect();
        let names = quoted(cells[1]).into_iter().filter(|name| is_name(name));
        metrics.extend(names.map(|name| (name, labels.clone())));
    }
    metrics
}
