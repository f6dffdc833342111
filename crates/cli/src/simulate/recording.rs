//! The recording of a terminal in README: what `simulate --grid` draws, as a moving picture.

use std::fmt::Write as _;

use carillon_simulate::{Assumptions, Report, generate, run};
use jiff::SignedDuration;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::play::Film;
use crate::top::draw::{Paint, draw};

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/dashboard/simulate.svg"
);
const EXAMPLE: &str = include_str!("../../../../examples/broadcastjob-retries-and-budget.yaml");
const NODES: usize = 400;
const TYPED: &str =
    "$ kubectl carillon simulate -f job.yaml --nodes 400 --fail 1% --flaky 3% --grid";
const ROWS: u16 = 18;
const COLUMNS: u16 = 100;
/// Pictures of the run, each shown for half a second. The last one stays for a while.
const PICTURES: usize = 18;
const STAYS: usize = 8;
const CELL: (f64, f64) = (8.4, 17.0);

fn report() -> Report {
    let object = serde_saphyr::from_str(EXAMPLE).unwrap();
    let assumptions = Assumptions {
        duration: "lognormal:30s,0.5".parse().unwrap(),
        start: "2s".parse().unwrap(),
        fail: "1%".parse().unwrap(),
        flaky: "3%".parse().unwrap(),
        exit_code: 1,
        api_latency: SignedDuration::from_millis(10),
        seed: 1,
    };
    run(&object, &generate(NODES, &[]), &assumptions).unwrap()
}

/// The terminal at so many moments from the beginning to the end.
fn pictures(report: &Report) -> Vec<Buffer> {
    let film = Film::new(report);
    let paint = Paint {
        color: true,
        unicode: true,
    };
    let picture = |n: usize| {
        let at = report.end.after_seconds as f64 * n as f64 / (PICTURES - 1) as f64;
        let mut view = film.view();
        view.show(film.page(at, "topology.kubernetes.io/zone"));
        let mut terminal = Terminal::new(TestBackend::new(COLUMNS, ROWS)).unwrap();
        let drawn = terminal.draw(|frame| drop(draw(frame, &view, paint, Film::clock(at))));
        drawn.unwrap().buffer.clone()
    };
    (0..PICTURES).map(picture).collect()
}

/// The colours of a usual terminal.
fn hex(color: Color) -> &'static str {
    match color {
        Color::Indexed(36) => "#00af87",
        Color::Indexed(39) => "#00afff",
        Color::Indexed(208) => "#ff8700",
        Color::Indexed(244) => "#808080",
        Color::Indexed(239) => "#4e4e4e",
        Color::Reset => "#d0d0d0",
        other => panic!("{other:?} has no place in the recording"),
    }
}

/// The outline of a sign: fonts do not agree on how wide it is.
fn outline(sign: &str) -> Option<&'static str> {
    Some(match sign {
        "■" => "m.7 4h7v9h-7z",
        "▸" => "m1.7 4.5l5 4l-5 4z",
        "✖" => "m1 5l1.4-1.4l2 2.4l2-2.4l1.4 1.4l-2 3l2 3l-1.4 1.4l-2-2.4l-2 2.4l-1.4-1.4l2-3z",
        "·" => "m3.2 7.5h2v2h-2z",
        "○" => "m1.2 5.5h6v6h-6zm1 1v4h4v-4z",
        _ => return None,
    })
}

fn color(cell: &Cell) -> (&'static str, bool) {
    (hex(cell.fg), cell.modifier.contains(Modifier::BOLD))
}

fn picture(buffer: &Buffer) -> String {
    let mut drawn = String::new();
    let mut outlines: Vec<(&str, String)> = Vec::new();
    for y in 0..ROWS {
        let mut x = 0;
        while x < COLUMNS {
            let first = &buffer[(x, y)];
            let (left, top) = (f64::from(x) * CELL.0, f64::from(y) * CELL.1);
            if let Some(outline) = outline(first.symbol()) {
                let paint = hex(first.fg);
                let at = outlines.iter().position(|(one, _)| *one == paint);
                let at = at.unwrap_or_else(|| {
                    outlines.push((paint, String::new()));
                    outlines.len() - 1
                });
                write!(outlines[at].1, "M{left:.1} {top:.0}{outline}").unwrap();
                x += 1;
                continue;
            }
            let mut text = String::new();
            let begin = x;
            while x < COLUMNS
                && color(&buffer[(x, y)]) == color(first)
                && outline(buffer[(x, y)].symbol()).is_none()
            {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            words(&mut drawn, &text, (begin, y), color(first));
        }
    }
    for (paint, outline) in outlines {
        write!(
            drawn,
            "<path fill=\"{paint}\" fill-rule=\"evenodd\" d=\"{outline}\"/>"
        )
        .unwrap();
    }
    drawn
}

/// Text without the blanks around it, as wide as it is on a terminal.
fn words(drawn: &mut String, text: &str, (x, y): (u16, u16), (paint, bold): (&str, bool)) {
    let blanks = text.chars().take_while(|sign| *sign == ' ').count();
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let left = (f64::from(x) + blanks as f64) * CELL.0;
    let bottom = f64::from(y) * CELL.1 + 13.0;
    let length = text.chars().count() as f64 * CELL.0;
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    write!(
        drawn,
        "<text x=\"{left:.1}\" y=\"{bottom:.0}\" textLength=\"{length:.1}\" fill=\"{paint}\"{weight}>{text}</text>"
    )
    .unwrap();
}

fn recording(pictures: &[Buffer]) -> String {
    let (width, height) = (f64::from(COLUMNS) * CELL.0, f64::from(ROWS) * CELL.1);
    let mut typed = Buffer::empty(pictures[0].area);
    typed.set_string(0, 0, TYPED, ratatui::style::Style::new());
    let shown: Vec<&Buffer> = [&typed, &typed].into_iter().chain(pictures).collect();
    let steps = shown.len() + STAYS;
    let seconds = steps as f64 / 2.0;
    let part = |steps_shown: usize| 100.0 * steps_shown as f64 / steps as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-12 -12 {:.0} {:.0}\" font-size=\"14\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">\n\
         <title>kubectl carillon simulate --grid: {NODES} nodes in three zones, one square each</title>\n\
         <style>g{{visibility:hidden;animation:one {seconds}s step-end infinite}}\
         g:last-of-type{{animation-name:last}}text{{white-space:pre}}\
         @keyframes one{{0%{{visibility:visible}}{:.3}%{{visibility:hidden}}}}\
         @keyframes last{{0%{{visibility:visible}}{:.3}%{{visibility:hidden}}}}\
         @media(prefers-reduced-motion){{g{{animation:none}}g:last-of-type{{visibility:visible}}}}</style>\n\
         <rect x=\"-12\" y=\"-12\" width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1c1c1c\"/>\n",
        width + 24.0,
        height + 24.0,
        part(1),
        part(1 + STAYS),
    );
    for (at, buffer) in shown.into_iter().enumerate() {
        let delay = at as f64 / 2.0;
        let drawn = picture(buffer);
        writeln!(svg, "<g style=\"animation-delay:{delay}s\">{drawn}</g>").unwrap();
    }
    svg.push_str("</svg>\n");
    svg
}

#[test]
fn the_recording_in_readme_is_what_a_terminal_shows() {
    let drawn = recording(&pictures(&report()));
    if std::env::var_os("CARILLON_WRITE_SCREENSHOTS").is_some() {
        std::fs::write(FILE, &drawn).unwrap();
    }
    let stored = std::fs::read_to_string(FILE).unwrap_or_default();
    // The last digit of a logarithm is not the same on each machine, and an estimate may differ by a second.
    let sure = |svg: &str| -> Vec<String> {
        let parts = svg.split("<text ").map(ToOwned::to_owned);
        parts.filter(|part| !part.contains(" ETA ")).collect()
    };
    assert!(
        sure(&stored) == sure(&drawn),
        "{FILE} is stale: CARILLON_WRITE_SCREENSHOTS=1 cargo test --workspace --bin kubectl-carillon recording"
    );
}
