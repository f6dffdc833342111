// Runs of CronJobs over time: outcome by colour and shape, duration by height.

import { duration, link, make, refill, runAddress } from "./dom.js";
import { sources, tell } from "./app.js";

const OUTCOMES = {
  Succeeded: ["done", "succeeded"],
  CompletedWithFailures: ["mixed", "complete, some nodes failed"],
  Failed: ["failed", "failed"],
  Running: ["active", "running"],
};

/** Runs side by side, the last one at the right. The highest took longest. */
export function strip(runs, namespace) {
  const longest = Math.max(1, ...runs.map((run) => run.seconds ?? 0));
  return make("div.runs", {}, runs.map((run) => {
    const [kind, says] = OUTCOMES[run.outcome];
    const told = [
      run.name, says, run.scheduled ? `scheduled ${run.scheduled}` : "on request",
      `took ${duration(run.seconds)}`, run.overlaps ? "started before the last one had ended" : "",
    ].filter(Boolean).join(", ");
    const href = runAddress(run, namespace);
    const height = `${4 + Math.round((30 * (run.seconds ?? 0)) / longest)}px`;
    return make(run.overlaps ? `a.run.${kind}.overlaps` : `a.run.${kind}`,
      { href, title: told, "aria-label": told, style: { height } });
  }));
}

export function outcomeWords(run) {
  return OUTCOMES[run.outcome][1];
}

const TITLES = ["Namespace", "CronJob", "Schedule", "Runs: old to new, height is duration", "Missed", "Next", "Status"];
const OPTIONAL = new Set([2, 5]);

export class Runs {
  constructor(main) {
    this.body = make("tbody");
    main.replaceChildren(make("div.scroll", {}, make("table", {},
      make("thead", {}, make("tr", {}, TITLES.map((title, at) =>
        make(OPTIONAL.has(at) ? "th.optional" : "th", { scope: "col" }, title)))), this.body)));
  }

  head(told) {
    document.title = "CronJob runs · Carillon";
    document.getElementById("scope").textContent = told.namespace ? `namespace ${told.namespace}` : "all namespaces";
    tell(sources(told.sources));
    const rows = Object.entries(told.rows).map(([name, row]) => [`${row.namespace}/${row.name}/${name}`, row]);
    rows.sort(([a], [b]) => (a < b ? -1 : 1));
    refill(this.body, ...rows.map(([, row]) => make("tr", {},
      make("td", {}, row.namespace),
      make("td.words", {}, link(row)),
      make("td.optional", {}, row.schedule),
      make("td", {}, row.runs.length ? strip(row.runs, row.namespace) : make("span.soft", {}, "no run is kept")),
      make(row.missed ? "td.number.bad" : "td.number", {}, row.missed ?? 0),
      make("td.optional.nowrap", {}, row.next ? row.next.replace("T", " ").replace("Z", " UTC") : "-"),
      make(row.headline.startsWith("Stalled") ? "td.words.bad" : "td.words", {}, row.headline))));
    if (!rows.length) {
      const words = told.loading ? "Loading …" : "There are no CronJobs.";
      this.body.append(make("tr", {}, make("td.soft", { colspan: TITLES.length }, words)));
    }
  }
}
