//! Which file imports which: no file may import one that imports it, however far around.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use carillon_testbed::carillon::workspace;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, UseTree, Visibility};

const CRATES: [&str; 7] = ["api", "cli", "operator", "oracle", "plan", "proof", "sim"];

/// As in `["store", "pod"]`; empty: the root.
type Module = Vec<String>;

#[test]
fn no_files_import_each_other_in_circles() {
    for krate in CRATES {
        let graph = imports(&workspace().join("crates").join(krate).join("src"));
        assert!(graph.len() > 10, "{krate}: {graph:?}");
        let found = in_circles(&graph);
        assert!(found.is_empty(), "files of {krate} in circles: {found:#?}");
    }
}

#[test]
fn a_circle_of_files_is_found_and_a_line_of_them_is_none() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in edges {
            let to = vec![(*to).to_owned()];
            graph
                .entry(vec![(*from).to_owned()])
                .or_default()
                .insert(to);
        }
        graph
    };
    let line = graph(&[("a", "b"), ("b", "c"), ("a", "c")]);
    assert!(in_circles(&line).is_empty());
    let circle = graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]);
    assert_eq!(in_circles(&circle), ["b", "c"]);
}

#[test]
fn an_import_is_a_use_or_a_path_outside_of_tests() {
    let text = "
        use crate::gate::{Gate, Kind as Other};
        use super::{apply::template, queue};
        mod rows;
        #[cfg(test)]
        mod tests { use crate::fuzz::x; }
        fn f() -> rows::Row { self::rows::g(crate::clock::now()); std::mem::take(x) }
    ";
    let modules = [
        "",
        "gate",
        "clock",
        "fuzz",
        "store",
        "store::pod",
        "store::pod::rows",
        "store::apply",
        "store::queue",
    ];
    let modules = modules.map(|name| {
        name.split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    });
    let modules: BTreeSet<Module> = modules.into();
    let own = vec!["store".to_owned(), "pod".to_owned()];
    let found = imports_of(&own, &syn::parse_file(text).unwrap(), &modules);
    let found: Vec<String> = found.iter().map(|module| module.join("::")).collect();
    assert_eq!(
        found,
        [
            "clock",
            "gate",
            "store::apply",
            "store::pod::rows",
            "store::queue"
        ]
    );
}

/// The modules that can be reached from themselves.
fn in_circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let reaches_itself = |from: &&Module| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![*from]);
        while let Some(next) = left.pop() {
            for to in graph.get(next).into_iter().flatten() {
                if to == *from {
                    return true;
                }
                if seen.insert(to) {
                    left.push(to);
                }
            }
        }
        false
    };
    let found = graph.keys().filter(reaches_itself);
    found.map(|module| module.join("::")).collect()
}

/// What each file below `src` imports of the others.
fn imports(src: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = BTreeMap::new();
    read(src, &mut Vec::new(), &mut files);
    let of_tests: Vec<Module> = files
        .iter()
        .flat_map(|(module, file)| modules_of_tests(module, file))
        .collect();
    files.retain(|module, _| !of_tests.iter().any(|tests| module.starts_with(tests)));
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let found = files.iter().map(|(module, file)| {
        let imports = imports_of(module, file, &modules);
        (module.clone(), imports)
    });
    found.collect()
}

/// Parses all files of a folder. Programs beside a library are crates of their own.
fn read(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_root = module.is_empty() && ["lib", "main"].contains(&&*name);
        if path.is_dir() {
            if name != "bin" {
                module.push(name);
                read(&path, module, files);
                module.pop();
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            let own = if is_root { None } else { Some(name) };
            files.insert(module.iter().cloned().chain(own).collect(), file);
        }
    }
}

fn modules_of_tests(module: &Module, file: &File) -> Vec<Module> {
    let of_tests = file.items.iter().filter_map(|item| match item {
        Item::Mod(item) if is_of_tests(&item.attrs) => Some(item.ident.to_string()),
        _ => None,
    });
    of_tests
        .map(|name| module.iter().cloned().chain([name]).collect())
        .collect()
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

fn imports_of(module: &Module, file: &File, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let mut imports = Imports {
        file: module,
        modules,
        inner: Vec::new(),
        found: BTreeSet::new(),
    };
    imports.visit_file(file);
    imports.found
}

struct Imports<'a> {
    file: &'a Module,
    modules: &'a BTreeSet<Module>,
    /// Modules within the file.
    inner: Module,
    found: BTreeSet<Module>,
}

impl Imports<'_> {
    /// Notes the file that a path leads to, if it is another one of the crate.
    fn see(&mut self, path: &[String]) {
        let here: Module = self.file.iter().chain(&self.inner).cloned().collect();
        let supers = path.iter().take_while(|part| *part == "super").count();
        let is_below = |name: &String| {
            let below: Module = here.iter().chain([name]).cloned().collect();
            self.modules.contains(&below)
        };
        let (base, rest) = match path {
            [first, rest @ ..] if first == "crate" => (&[][..], rest),
            [first, rest @ ..] if first == "self" => (&here[..], rest),
            [first, ..] if first == "super" => {
                (&here[..here.len().saturating_sub(supers)], &path[supers..])
            }
            [first, ..] if is_below(first) => (&here[..], path),
            // Of another crate, or the name of something else.
            _ => return,
        };
        let mut target: Module = base.iter().chain(rest).cloned().collect();
        while !self.modules.contains(&target) {
            if target.pop().is_none() {
                return;
            }
        }
        if target != *self.file {
            self.found.insert(target);
        }
    }

    fn see_tree(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.see_tree(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.see_tree(before, tree);
                }
            }
            UseTree::Name(name) => self.see_name(before, name.ident.to_string()),
            UseTree::Rename(rename) => self.see_name(before, rename.ident.to_string()),
            UseTree::Glob(_) => self.see(&before.clone()),
        }
    }

    fn see_name(&mut self, before: &[String], name: String) {
        // `use super::x::{self}` is `use super::x`.
        let last = Some(name).filter(|name| name != "self");
        let path: Vec<String> = before.iter().cloned().chain(last).collect();
        self.see(&path);
    }
}

impl<'a> Visit<'a> for Imports<'_> {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_of_tests(&item.attrs) && item.content.is_some() {
            self.inner.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.inner.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if !is_of_tests(&item.attrs) {
            self.see_tree(&mut Vec::new(), &item.tree);
        }
    }

    // `pub(in …)` imports nothing.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if parts.len() > 1 {
            self.see(&parts);
        }
        visit::visit_path(self, path);
    }
}
