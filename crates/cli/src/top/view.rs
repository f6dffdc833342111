//! What is looked at, and what a key does.

use carillon_dashboard::cluster::Resource;
use carillon_dashboard::page::{Address, ObjectAddress, Page};
use carillon_plan::view::broadcast_job::pace::Pace;
use carillon_plan::view::squares::{Class, Square};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;

use super::grid::Grid;

/// Rows that a page of keys moves by.
const LEAP: isize = 10;

/// What has to be done for a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Effect {
    /// Nothing but to draw.
    None,
    /// Another page is looked at, or the same one in another way.
    Load,
    /// A node is to be explained.
    Explain(Box<ObjectAddress>, String),
    Quit,
}

/// A text over the page.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Popup {
    pub(crate) title: String,
    pub(crate) text: String,
    pub(crate) scroll: u16,
}

/// What is looked at.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) at: Address,
    back: Vec<Address>,
    pub(crate) page: Page,
    /// How fast the job is that is looked at.
    pub(crate) pace: Option<Pace>,
    /// The square, or the row of the first page, that is pointed at.
    pub(crate) cursor: usize,
    pub(crate) popup: Option<Popup>,
    /// What is being typed to look for.
    pub(crate) find: Option<String>,
    /// What was looked for last.
    found: String,
}

pub(crate) const HELP: &str = "\
arrows, h j k l   move             PgUp PgDn, Home End
enter             open an object; explain a node
n N               next node that failed, the one before
/ text enter      next node or object whose name has the text
g                 group nodes by the next label
esc, backspace    back
q, Ctrl-C         quit";

impl View {
    pub(crate) fn new(at: Address) -> Self {
        Self {
            at,
            back: Vec::new(),
            page: Page {
                head: Value::Null,
                fleet: None,
            },
            pace: None,
            cursor: 0,
            popup: None,
            find: None,
            found: String::new(),
        }
    }

    pub(crate) fn squares(&self) -> &[Square] {
        let fleet = self.page.fleet.as_ref();
        fleet.map_or(&[], |fleet| &fleet.squares)
    }

    /// The rows of the first page; of others there are none.
    pub(crate) fn rows(&self) -> &[Value] {
        let rows = self.page.head["rows"].as_array();
        rows.map_or(&[], Vec::as_slice)
    }

    /// The node that is pointed at.
    pub(crate) fn square(&self) -> Option<&Square> {
        self.squares().get(self.cursor)
    }

    fn targets(&self) -> usize {
        self.squares().len().max(self.rows().len())
    }

    fn name(&self, target: usize) -> &str {
        match self.squares().get(target) {
            Some(square) => &square.node,
            None => self.rows()[target]["name"].as_str().unwrap_or_default(),
        }
    }

    /// Takes a page that was made meanwhile. What is pointed at stays the same node or object.
    pub(crate) fn show(&mut self, mut page: Page) {
        let key =
            |row: &Value| [&row["resource"], &row["namespace"], &row["name"]].map(Value::clone);
        if let Some(rows) = page.head["rows"].as_array_mut() {
            rows.sort_by_cached_key(|row| (worry(row), key(row).map(|part| part.to_string())));
        }
        let node = self.square().map(|square| square.node.clone());
        let row = self.rows().get(self.cursor).map(key);
        self.page = page;
        let again = match (node, row) {
            (Some(node), _) => self.squares().iter().position(|one| one.node == node),
            (_, Some(row)) => self.rows().iter().position(|one| key(one) == row),
            _ => None,
        };
        let last = self.targets().saturating_sub(1);
        self.cursor = again.unwrap_or(self.cursor).min(last);
    }

    pub(crate) fn on_key(&mut self, key: KeyEvent, grid: &Grid) -> Effect {
        if key.kind == KeyEventKind::Release {
            return Effect::None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c')) {
            return Effect::Quit;
        }
        if self.find.is_some() {
            self.type_on(key.code);
            return Effect::None;
        }
        if let Some(popup) = &mut self.popup {
            match key.code {
                KeyCode::Down | KeyCode::Char('j') => popup.scroll = popup.scroll.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => popup.scroll = popup.scroll.saturating_sub(1),
                KeyCode::Char('q') => return Effect::Quit,
                _ => self.popup = None,
            }
            return Effect::None;
        }
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Esc | KeyCode::Backspace => return self.leave(),
            KeyCode::Enter => return self.enter(),
            KeyCode::Char('g') => return self.group(),
            KeyCode::Char('?') => self.popup = Some(help()),
            KeyCode::Char('/') => self.find = Some(String::new()),
            KeyCode::Char('n') => self.next_failed(1),
            KeyCode::Char('N') => self.next_failed(-1),
            code => self.step(code, grid),
        }
        Effect::None
    }

    fn step(&mut self, code: KeyCode, grid: &Grid) {
        let last = self.targets().saturating_sub(1);
        let by = |by: isize| {
            if self.squares().is_empty() {
                self.cursor.saturating_add_signed(by)
            } else {
                grid.below(self.cursor, by)
            }
        };
        let to = match code {
            KeyCode::Left | KeyCode::Char('h') => self.cursor.saturating_sub(1),
            KeyCode::Right | KeyCode::Char('l') => self.cursor + 1,
            KeyCode::Up | KeyCode::Char('k') => by(-1),
            KeyCode::Down | KeyCode::Char('j') => by(1),
            KeyCode::PageUp => by(-LEAP),
            KeyCode::PageDown => by(LEAP),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.cursor,
        };
        self.cursor = to.min(last);
    }

    fn type_on(&mut self, code: KeyCode) {
        let Some(text) = &mut self.find else { return };
        match code {
            KeyCode::Char(c) => text.push(c),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Enter => {
                // An empty text looks for the next of what was looked for before.
                if !text.is_empty() {
                    self.found.clone_from(text);
                }
                self.find = None;
                let wanted = self.found.clone();
                self.seek(1, |view, at| view.name(at).contains(&wanted));
            }
            _ => self.find = None,
        }
    }

    fn next_failed(&mut self, step: isize) {
        self.seek(step, |view, at| {
            let square = view.squares().get(at);
            square.is_some_and(|square| square.look.class == Class::Failed)
        });
    }

    /// Goes to the next target that is `wanted`, and from the last one to the first.
    fn seek(&mut self, step: isize, wanted: impl Fn(&Self, usize) -> bool) {
        let number = self.targets();
        let next = |at: usize| (at + number).saturating_add_signed(step) % number.max(1);
        let mut at = self.cursor;
        for _ in 0..number {
            at = next(at);
            if wanted(self, at) {
                self.cursor = at;
                return;
            }
        }
    }

    fn enter(&mut self) -> Effect {
        match (&self.at, self.square()) {
            (Address::Object(at), Some(square)) => {
                Effect::Explain(Box::new(at.clone()), square.node.clone())
            }
            (Address::Overview, _) => match self.rows().get(self.cursor).and_then(address) {
                Some(at) => {
                    let before = std::mem::replace(&mut self.at, Address::Object(at));
                    self.back.push(before);
                    self.cursor = 0;
                    Effect::Load
                }
                None => Effect::None,
            },
            _ => Effect::None,
        }
    }

    fn leave(&mut self) -> Effect {
        match self.back.pop() {
            Some(before) => {
                self.at = before;
                self.cursor = 0;
                Effect::Load
            }
            None => Effect::None,
        }
    }

    /// Groups by the next of the labels that the page offers, and after the last one by none.
    fn group(&mut self) -> Effect {
        let Address::Object(at) = &mut self.at else {
            return Effect::None;
        };
        let offered = self.page.head["groupings"].as_array();
        let mut offered = offered.into_iter().flatten().filter_map(Value::as_str);
        let next = if at.group.is_empty() {
            offered.next()
        } else {
            offered.skip_while(|key| *key != at.group).nth(1)
        };
        at.group = next.unwrap_or_default().to_owned();
        Effect::Load
    }
}

fn help() -> Popup {
    Popup {
        title: "keys".to_owned(),
        text: HELP.to_owned(),
        scroll: 0,
    }
}

/// The most worrying first.
fn worry(row: &Value) -> usize {
    let order = ["bad", "care", "plain", "good"];
    let tone = row["tone"].as_str().unwrap_or_default();
    order
        .iter()
        .position(|one| *one == tone)
        .unwrap_or(order.len())
}

fn address(row: &Value) -> Option<ObjectAddress> {
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    Some(ObjectAddress::new(
        Resource::of_name(&text("resource"))?,
        &text("namespace"),
        &text("name"),
    ))
}
