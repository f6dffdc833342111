//! Figures as a table: a line for each question, a column for each page.

use super::{Report, Sample, Stretch, Told};

type Line = (&'static str, fn(&Sample) -> String);

const LINES: [Line; 18] = [
    ("first contentful paint, dashboard just started", |s| {
        paint(&s.cold)
    }),
    ("all squares drawn", |s| drawn(&s.cold)),
    ("first contentful paint, loaded again", |s| paint(&s.warm)),
    ("all squares drawn", |s| drawn(&s.warm)),
    ("sent until then: files of the page", |s| {
        kilobytes(s.warm.assets)
    }),
    ("and events", |s| kilobytes(s.warm.bytes.values().sum())),
    ("standing still: frames per second, longest", |s| {
        frames(&s.still)
    }),
    ("CPU of browser, dashboard", |s| cpu(&s.still)),
    ("heap of the page, its process", |s| memory(&s.still)),
    ("the dashboard's process", |s| {
        megabytes(s.still.dashboard_rss_bytes as f64)
    }),
    ("storm: nodes changed per second", |s| {
        format!(
            "{:.0} for {:.0} s",
            s.changes as f64 / s.written_seconds,
            s.written_seconds
        )
    }),
    ("sent per second", |s| sent(&s.storm)),
    ("frames per second, longest", |s| frames(&s.storm)),
    ("frames more than 50 ms after the one before", |s| {
        s.storm.told.slow.to_string()
    }),
    ("CPU of browser, dashboard", |s| cpu(&s.storm)),
    ("heap of the page afterwards, its process", |s| {
        memory(&s.storm)
    }),
    ("the dashboard's process afterwards, at most", |s| {
        let (now, most) = (s.storm.dashboard_rss_bytes, s.storm.dashboard_peak_bytes);
        format!("{}, {}", megabytes(now as f64), megabytes(most as f64))
    }),
    ("from the last change until it is shown", |s| {
        format!("{:.1} s", s.shown_after_seconds)
    }),
];

impl Report {
    pub(super) fn print(&self) {
        println!("{}; {} nodes\n", self.machine, self.nodes);
        let kinds: Vec<&str> = self.samples.iter().map(|sample| sample.kind).collect();
        println!(
            "| | {} |\n|---|{}",
            kinds.join(" | "),
            "---|".repeat(kinds.len())
        );
        for (what, of) in LINES {
            let told: Vec<String> = self.samples.iter().map(of).collect();
            println!("| {what} | {} |", told.join(" | "));
        }
        for sample in &self.samples {
            self.print_events(sample);
        }
    }

    /// What the storm sent, and what else took the machine's time.
    fn print_events(&self, sample: &Sample) {
        let Stretch { told, seconds, .. } = &sample.storm;
        println!(
            "\n| {} | events per second | KB per second | ms each |\n|---|---|---|---|",
            sample.kind
        );
        for (name, count) in &told.events {
            let (bytes, spent) = (told.bytes[name], told.spent[name]);
            let count = *count as f64;
            println!(
                "| {name} | {:.1} | {:.1} | {:.1} |",
                count / seconds,
                bytes / seconds / 1e3,
                spent / count
            );
        }
        let of = |cpu: f64| 100.0 * cpu / seconds;
        println!(
            "\n{} of {} nodes a second were asked for; the API server took {:.0} % of a core, all of the machine {:.0} %",
            self.rate,
            self.nodes,
            of(sample.storm.apiserver_cpu_seconds),
            of(sample.storm.machine_cpu_seconds)
        );
    }
}

fn paint(told: &Told) -> String {
    told.first_paint
        .map_or_else(|| "-".to_owned(), milliseconds)
}

fn drawn(told: &Told) -> String {
    told.drawn.map_or_else(|| "-".to_owned(), milliseconds)
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.0} ms")
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.0} KB", bytes / 1e3)
}

fn megabytes(bytes: f64) -> String {
    format!("{:.0} MB", bytes / 1e6)
}

fn sent(stretch: &Stretch) -> String {
    kilobytes(stretch.told.bytes.values().sum::<f64>() / stretch.seconds)
}

fn frames(stretch: &Stretch) -> String {
    let Told {
        frames,
        longest,
        ms,
        ..
    } = &stretch.told;
    format!("{:.0}, {longest:.0} ms", 1e3 * *frames as f64 / ms)
}

fn cpu(stretch: &Stretch) -> String {
    let of = |cpu: f64| format!("{:.0} %", 100.0 * cpu / stretch.seconds);
    let (browser, dashboard) = (stretch.browser_cpu_seconds, stretch.dashboard_cpu_seconds);
    format!("{}, {}", of(browser), of(dashboard))
}

fn memory(stretch: &Stretch) -> String {
    let (heap, process) = (stretch.heap_bytes, stretch.tab_rss_bytes as f64);
    format!("{}, {}", megabytes(heap), megabytes(process))
}
