//! Who reads a reason finds a page that says what it means.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use carillon_testbed::carillon::workspace;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprCall, ExprMethodCall, FieldValue, File, Item, ItemMod, Lit, LitStr, Member,
};

/// The pages whose tables say it.
const PAGES: [&str; 3] = [
    "docs/reasons.md",
    "docs/broadcastjob.md",
    "docs/runbooks/CarillonCronJobStalled.md",
];

/// The sources of what is written into conditions, results and events.
const SOURCES: [&str; 2] = ["crates/plan/src", "crates/operator/src"];

/// Words of several words that these sources have and that are no reasons of ours.
const OTHER_WORDS: [&str; 27] = [
    "AlreadyExists",
    "BadRequest",
    "ClusterRole",
    "ContainerCreating",
    "ControllerRevision",
    "DisruptionTarget",
    "DoesNotExist",
    "FailIndex",
    "FieldValueInvalid",
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTypeInvalid",
    "NameTaken",
    "NamespaceTerminating",
    "NodeShutdown",
    "NonIndexed",
    "NotFound",
    "NotIn",
    "NotReady",
    "NotScheduled",
    "OnDelete",
    "OnFailure",
    "PodInitializing",
    "PodScheduled",
    "PreferNoSchedule",
    "TooManyRequests",
    "WorkQueue",
];

#[test]
fn each_reason_stands_in_a_table_of_the_docs() {
    let documented: BTreeSet<String> = PAGES
        .iter()
        .flat_map(|page| in_tables(&text_of(page)))
        .collect();
    let missing: Vec<_> = reasons()
        .into_iter()
        .filter(|reason| !documented.contains(reason))
        .collect();
    assert!(
        missing.is_empty(),
        "say in docs/reasons.md what these mean, or in OTHER_WORDS that they are none: {missing:#?}"
    );
}

#[test]
fn docs_of_reasons_have_none_that_nobody_writes() {
    let (mut known, page) = (reasons(), text_of("docs/reasons.md"));
    // Some events are called as the condition is.
    known.extend(constants(&["types"]));
    let first = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let stale: Vec<_> = first.filter(|reason| !known.contains(*reason)).collect();
    assert!(stale.is_empty(), "{stale:#?}");
    let words: BTreeSet<String> = sources()
        .iter()
        .flat_map(|file| Words::of(file).several)
        .collect();
    let stale: Vec<_> = OTHER_WORDS
        .iter()
        .filter(|word| !words.contains(**word))
        .collect();
    assert!(stale.is_empty(), "{stale:#?}");
}

#[test]
fn a_reason_is_a_word_of_several_words_or_one_that_is_told() {
    let text = r#"
        fn f() {
            note(true, "Lost", "Waiting", "All of it");
            note(true, reason, "Waiting", "All of it");
            self.note(false, "FoundAgain", "Waiting", text);
            let (reason, word) = ("NodeLost", "Waiting");
            let note = Note { reason: "Gone", action: "Waiting" };
            EndState::failure("Late", "It is late");
        }
        #[cfg(test)]
        mod tests { fn g() { note(true, "Tested", "", "") } const A: &str = "TestedToo"; }
    "#;
    let words = Words::of(&syn::parse_file(text).unwrap());
    assert_eq!(Vec::from_iter(words.several), ["FoundAgain", "NodeLost"]);
    assert_eq!(
        Vec::from_iter(words.told),
        ["FoundAgain", "Gone", "Late", "Lost"]
    );
    let table = "| `A`, `B` | no `C` d |\n`E`";
    assert_eq!(Vec::from_iter(in_tables(table)), ["A", "B", "C"]);
}

/// Every reason: the constants, and what the sources write besides.
fn reasons() -> BTreeSet<String> {
    let (mut reasons, kinds) = (constants(&["reasons", "results"]), kinds());
    assert!(reasons.len() > 60, "they were moved: {reasons:?}");
    for file in sources() {
        let words = Words::of(&file);
        reasons.extend(words.told);
        reasons.extend(
            words
                .several
                .into_iter()
                .filter(|word| !OTHER_WORDS.contains(&&**word) && !kinds.contains(word)),
        );
    }
    reasons
}

/// The kinds of carillon.dev.
fn kinds() -> BTreeSet<String> {
    let crds = carillon_api::crds().into_iter();
    crds.map(|crd| crd.spec.names.kind).collect()
}

/// The constants in these modules of `carillon_api::condition`.
fn constants(modules: &[&str]) -> BTreeSet<String> {
    let file = syn::parse_file(&text_of("crates/api/src/condition.rs")).unwrap();
    let modules = file.items.iter().filter_map(|item| match item {
        Item::Mod(item) if modules.iter().any(|name| item.ident == name) => item.content.as_ref(),
        _ => None,
    });
    let items = modules.flat_map(|(_, items)| items);
    items
        .filter_map(|item| match item {
            Item::Const(item) => text(&item.expr),
            _ => None,
        })
        .collect()
}

fn sources() -> Vec<File> {
    let mut files = Vec::new();
    for folder in SOURCES {
        read(&workspace().join(folder), &mut files);
    }
    files
}

fn read(folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // Those are parts of tests.
        if [
            "tests",
            "fuzz",
            "fixture",
            "samples",
            "properties",
            "golden",
            "brute_force",
        ]
        .contains(&&*name)
        {
            continue;
        }
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
        }
    }
}

fn text_of(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// What stands between backticks in the tables of a page.
fn in_tables(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    quoted.map(str::to_owned).collect()
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

/// What may be a reason in a source, tests left out.
#[derive(Default)]
struct Words {
    /// Written as reasons are, such as `NodeLost`.
    several: BTreeSet<String>,
    /// Where a reason belongs, however it is written.
    told: BTreeSet<String>,
}

impl Words {
    fn of(file: &File) -> Self {
        let mut words = Self::default();
        words.visit_file(file);
        words
    }

    /// The reason that a function is given which people are told by.
    fn told_by<'a>(&mut self, function: &str, mut given: impl Iterator<Item = &'a Expr>) {
        let at = match function {
            // Whether it is a warning comes before.
            "note" => 1,
            "failure" | "success" => 0,
            _ => return,
        };
        let reason = given.nth(at).and_then(text);
        self.told.extend(reason.filter(|word| humps(word) > 0));
    }
}

/// Of how many words such as `Node` a word consists; none: it is written otherwise.
fn humps(word: &str) -> usize {
    let is_one = word.chars().all(|c| c.is_ascii_alphanumeric());
    let begins = word.starts_with(|c: char| c.is_ascii_uppercase());
    let small = word.chars().any(|c| c.is_ascii_lowercase());
    let count = word.chars().filter(char::is_ascii_uppercase).count();
    if is_one && begins && small { count } else { 0 }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'a> Visit<'a> for Words {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // Attributes are for programs.
    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_lit_str(&mut self, literal: &'a LitStr) {
        if humps(&literal.value()) > 1 {
            self.several.insert(literal.value());
        }
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(last) = path.path.segments.last()
        {
            self.told_by(&last.ident.to_string(), call.args.iter());
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        self.told_by(&call.method.to_string(), call.args.iter());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_field_value(&mut self, field: &'a FieldValue) {
        if let Member::Named(name) = &field.member
            && name == "reason"
        {
            self.told
                .extend(text(&field.expr).filter(|word| humps(word) > 0));
        }
        visit::visit_field_value(self, field);
    }
}
