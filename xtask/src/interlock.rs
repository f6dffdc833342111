//! What the interlock shares with the planner whose plans it judges: types, names, and nothing that decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use carillon_testbed::carillon::workspace;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprMethodCall, File, ImplItem, Item, ItemImpl, ItemMod, ItemUse, Macro, Token, Type,
    UseTree,
};

/// What objects consist of. Of each kind its snapshot and the types of its actions come besides.
const TYPES: [&str; 29] = [
    "broadcast_job::BroadcastJob",
    "broadcast_job::Index",
    "broadcast_job::Member",
    "cron_job::Child",
    "cron_job::ChildKind",
    "cron_job::CronJob",
    "daemon_set::DaemonPod",
    "daemon_set::DaemonSet",
    "daemon_set::Why",
    "daemon_set::spec::Quota",
    "daemon_set::spec::Update",
    "job::Job",
    "job::JobPod",
    "job::Spec",
    "left_behind",
    "node::Effect",
    "node::NodeRow",
    "parallelism::Parallelism",
    "placement::Operator",
    "placement::Placement",
    "placement::Requirement",
    "plan::OnError",
    "pod::Deletion",
    "pod::PodPhase",
    "pod::PodRow",
    "record::Record",
    "record::Slice",
    "record_index",
    "uid::Uid",
];

/// Names follow from what they are for. Were they made twice, it would be a defect that both make the same ones.
const NAMES: [&str; 2] = ["name::pod", "name::request"];

/// How a refusal is written down: nothing of it says whether a plan passes.
const REFUSAL: [&str; 4] = [
    "condition::set",
    "condition::stalled",
    "cron_job::columns::fill",
    "pod::printable",
];

/// What the interlock asks these types: what an object says of itself, what it says once it is stalled, and where
/// something is. The names of some are those of other things, too, which cannot be told apart here.
const QUESTIONS: [&str; 19] = [
    "as_str",
    "asked",
    "awake",
    "has_ended",
    "indexed",
    "is_empty",
    "is_indexed",
    "is_native",
    "kind",
    "label",
    "len",
    "needed",
    "pods_of",
    "quiet",
    "records",
    "revision",
    "stalled",
    "taken_pod",
    "word",
];

/// The parts of a path.
type Parts = Vec<String>;

#[test]
fn the_interlock_shares_types_and_names_with_the_planner_and_nothing_that_decides() {
    let modules = modules();
    let found: BTreeSet<String> = interlock()
        .values()
        .flat_map(|file| imports(file, &modules))
        .collect();
    let allowed: Vec<&str> = [&TYPES[..], &NAMES, &REFUSAL].concat();
    let is_of = |path: &str, of: &str| {
        path.strip_prefix(of)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let more: Vec<_> = found
        .iter()
        .filter(|path| !allowed.iter().any(|of| is_of(path, of)) && !is_of_each_kind(path))
        .collect();
    assert!(more.is_empty(), "the interlock needs its own: {more:#?}");
    let fewer: Vec<_> = allowed
        .iter()
        .filter(|of| !found.iter().any(|path| is_of(path, of)))
        .collect();
    assert!(
        fewer.is_empty(),
        "no longer used, take them off the list: {fewer:#?}"
    );
}

#[test]
fn the_interlock_asks_the_types_of_the_planner_for_nothing_that_was_decided() {
    let modules = modules();
    let files = interlock();
    let imported: BTreeSet<String> = files
        .values()
        .flat_map(|file| imports(file, &modules))
        .filter(|path| is_of_each_kind(path))
        .collect();
    let types: BTreeSet<&str> = TYPES
        .into_iter()
        .chain(imported.iter().map(String::as_str))
        .filter_map(|path| path.rsplit("::").next())
        .collect();
    let mut methods = BTreeSet::new();
    for (path, file) in &sources() {
        if !is_interlock(path) {
            methods.extend(methods_of(file, &types));
        }
    }
    let asked: BTreeSet<String> = files
        .values()
        .flat_map(|file| calls(file, &types))
        .collect();
    let found: Vec<&str> = asked.intersection(&methods).map(String::as_str).collect();
    assert_eq!(
        found, QUESTIONS,
        "what decides, the interlock needs its own of"
    );
}

#[test]
fn an_import_of_the_interlock_is_found_by_its_full_path() {
    let text = r#"
        use super::super::left_behind::rules::LEFT_BEHIND;
        use crate::job::{action::{Action, Step}, indexes::Indexes as Set, Spec};
        use crate::{name, uid::Uid};
        fn f(spec: &Spec) { format!("{}", name::pod(Set::read(1))); crate::schedule::next(); std::mem::take(x) }
        #[cfg(test)]
        mod tests { use crate::job::plan; }
    "#;
    let modules = [
        "",
        "job",
        "job::action",
        "job::indexes",
        "name",
        "uid",
        "schedule",
        "interlock",
    ];
    let modules = modules.map(|path| path.split("::").map(str::to_owned).collect());
    let file = syn::parse_file(text).unwrap();
    let found = Vec::from_iter(imports(&file, &modules.into()));
    let expected = [
        "job::Spec",
        "job::action::Action",
        "job::action::Step",
        "job::indexes::Indexes",
        "job::indexes::Indexes::read",
        "name::pod",
        "schedule::next",
        "uid::Uid",
    ];
    assert_eq!(found, expected);
    let text =
        r#"fn f() { a.b().c(); D::e(1); O::g(); self.h(); trip(format!("{}", i.k())); D::L }"#;
    let found = calls(&syn::parse_file(text).unwrap(), &["D"].into());
    assert_eq!(Vec::from_iter(found), ["L", "b", "c", "e", "k"]);
}

/// Whether a path is of the snapshot of a kind, or of a type of its actions.
fn is_of_each_kind(path: &str) -> bool {
    let parts: Vec<&str> = path.split("::").collect();
    let is_type = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    match parts[..] {
        [_, "Snapshot", ..] => true,
        [_, "action", name, ..] => is_type(name),
        _ => false,
    }
}

fn is_interlock(path: &[String]) -> bool {
    path.first().is_some_and(|first| first == "interlock")
}

/// The files of the interlock, tests left out.
fn interlock() -> BTreeMap<Parts, File> {
    let mut files = sources();
    files.retain(|path, _| is_interlock(path));
    assert!(files.len() > 10, "it was moved: {:?}", files.keys());
    files
}

/// The files of `crates/plan` by module, tests left out.
fn sources() -> BTreeMap<Parts, File> {
    let mut files = BTreeMap::new();
    read(
        &workspace().join("crates/plan/src"),
        &mut Vec::new(),
        &mut files,
    );
    files
}

fn read(folder: &Path, module: &mut Parts, files: &mut BTreeMap<Parts, File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "tests" || name == "lib" {
            continue;
        }
        module.push(name);
        if path.is_dir() {
            read(&path, module, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            files.insert(module.clone(), file);
        }
        module.pop();
    }
}

fn modules() -> BTreeSet<Parts> {
    sources().into_keys().collect()
}

/// What a file names of the crate outside of the interlock.
fn imports(file: &File, modules: &BTreeSet<Parts>) -> BTreeSet<String> {
    let mut names = Names::default();
    names.visit_file(file);
    let mut found = BTreeSet::new();
    for path in names
        .imported
        .values()
        .cloned()
        .chain(names.paths.iter().cloned())
    {
        let path = match names.imported.get(&path[0]) {
            Some(import) => import.iter().chain(&path[1..]).cloned().collect(),
            None => path,
        };
        let Some(("crate", path)) = path.split_first().map(|(first, rest)| (&**first, rest)) else {
            continue;
        };
        // Of a module that is imported, only what is used of it counts.
        if !is_interlock(path) && !modules.contains(path) {
            found.insert(path.join("::"));
        }
    }
    found
}

/// The paths of a file outside of its tests.
#[derive(Default)]
struct Names {
    /// What is imported, by the name it has here.
    imported: BTreeMap<String, Parts>,
    paths: BTreeSet<Parts>,
}

impl Names {
    fn import(&mut self, before: &mut Parts, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.import(before, tree)),
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                self.imported.insert(last, before.clone());
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let path = before.iter().cloned().chain([name.clone()]);
                self.imported.insert(name, path.collect());
            }
            UseTree::Rename(name) => {
                let path = before.iter().cloned().chain([name.ident.to_string()]);
                self.imported
                    .insert(name.rename.to_string(), path.collect());
            }
            UseTree::Glob(_) => panic!("say what is imported of {before:?}"),
        }
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.import(&mut Vec::new(), &item.tree);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        for given in given_to(call) {
            let mut names = Names::default();
            names.visit_expr(&given);
            self.paths.append(&mut names.paths);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.paths.insert(parts(path));
        visit::visit_path(self, path);
    }
}

fn parts(path: &syn::Path) -> Parts {
    path.segments
        .iter()
        .map(|part| part.ident.to_string())
        .collect()
}

/// The functions that types of these names have, if others may call them.
fn methods_of(file: &File, types: &BTreeSet<&str>) -> BTreeSet<String> {
    let of_type = |item: &ItemImpl| match &*item.self_ty {
        Type::Path(path) => parts(&path.path)
            .last()
            .is_some_and(|name| types.contains(&**name)),
        _ => false,
    };
    let mut found = BTreeSet::new();
    for item in &file.items {
        let Item::Impl(item) = item else { continue };
        if item.trait_.is_none() && of_type(item) {
            found.extend(item.items.iter().filter_map(|item| match item {
                ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
                _ => None,
            }));
        }
    }
    found
}

/// The functions that a file calls of these types, and of values of whatever type; its own and tests left out.
fn calls(file: &File, types: &BTreeSet<&str>) -> BTreeSet<String> {
    struct Calls<'t>(&'t BTreeSet<&'t str>, BTreeSet<String>);

    impl<'a> Visit<'a> for Calls<'_> {
        fn visit_item_mod(&mut self, item: &'a ItemMod) {
            if item.ident != "tests" {
                visit::visit_item_mod(self, item);
            }
        }

        fn visit_macro(&mut self, call: &'a Macro) {
            for given in given_to(call) {
                Calls(self.0, BTreeSet::new()).visit_into(&given, &mut self.1);
            }
        }

        fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
            let own = matches!(&*call.receiver, Expr::Path(path) if path.path.is_ident("self"));
            if !own {
                self.1.insert(call.method.to_string());
            }
            visit::visit_expr_method_call(self, call);
        }

        fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
            if let [.., of, function] = &*parts(&path.path)
                && self.0.contains(&**of)
            {
                self.1.insert(function.clone());
            }
            visit::visit_expr_path(self, path);
        }
    }

    impl Calls<'_> {
        /// An expression that lives no longer than this call.
        fn visit_into(mut self, expression: &Expr, found: &mut BTreeSet<String>) {
            self.visit_expr(expression);
            found.append(&mut self.1);
        }
    }

    let mut calls = Calls(types, BTreeSet::new());
    calls.visit_file(file);
    calls.1
}

/// What is given to a macro such as `format!`.
fn given_to(call: &Macro) -> Vec<Expr> {
    let given = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    given.into_iter().flatten().collect()
}
