// The first page: all objects as a table that can be sorted and searched.

import { age, bar, link, make, refill } from "./dom.js";
import { remember, route, sources, tell } from "./app.js";

const LINES = 500;

const COLUMNS = [
  ["Kind", (row) => `${row.kind} ${row.api}`, "optional"],
  ["Namespace", (row) => row.namespace],
  ["Name", (row) => row.name],
  ["Nodes", (row) => (row.counts ? row.counts.done / Math.max(1, row.counts.nodes) : -1)],
  ["Failed", (row) => row.counts?.failed ?? -1, "number"],
  ["Status", (row) => `${["bad", "care", "plain", "good"].indexOf(row.tone)} ${row.headline}`],
  ["Age", (row) => -Date.parse(row.created ?? 0), "number optional"],
];

export class Objects {
  constructor(main) {
    this.main = main;
    this.rows = [];
    const { query } = route();
    this.text = query.get("q") ?? "";
    [this.sort, this.down] = [query.get("sort") ?? "Status", query.get("down") === "1"];
    this.search = make("input", {
      type: "search", placeholder: "name, namespace, kind, status", "aria-label": "Filter objects", value: this.text,
      oninput: () => this.filter(this.search.value),
    });
    this.number = make("span.soft");
    this.body = make("tbody");
    this.titles = make("tr");
    main.replaceChildren(
      make("div.tools", {}, this.search, this.number),
      make("div.scroll", {}, make("table", {}, make("thead", {}, this.titles), this.body)),
    );
    this.clock = setInterval(() => this.fill(), 30000);
  }

  end() {
    clearInterval(this.clock);
  }

  title() {
    const cells = COLUMNS.map(([name, , classes]) => make(classes ? `th.${classes.replace(" ", ".")}` : "th", {
      "aria-sort": name === this.sort ? (this.down ? "descending" : "ascending") : false, scope: "col",
    }, make("button", { onclick: () => this.sorted(name) }, name)));
    refill(this.titles, ...cells);
  }

  sorted(name) {
    this.down = name === this.sort ? !this.down : false;
    this.sort = name;
    remember({ sort: name, down: this.down ? "1" : "" });
    this.fill();
  }

  filter(text) {
    this.text = text;
    remember({ q: text });
    this.fill();
  }

  head(told) {
    document.title = "Carillon";
    document.getElementById("scope").textContent = told.namespace ? `namespace ${told.namespace}` : "all namespaces";
    Object.assign(this, { rows: Object.values(told.rows), loading: told.loading });
    tell(sources(told.sources));
    this.fill();
  }

  fill() {
    this.title();
    const text = this.text.toLowerCase();
    const says = (row) => `${row.kind} ${row.api} ${row.namespace} ${row.name} ${row.headline}`.toLowerCase();
    const by = COLUMNS.find(([name]) => name === this.sort)?.[1] ?? COLUMNS[5][1];
    const rows = this.rows.filter((row) => says(row).includes(text)).sort((a, b) => {
      const [x, y] = [by(a), by(b)];
      const order = x < y ? -1 : x > y ? 1 : a.name.localeCompare(b.name);
      return this.down ? -order : order;
    });
    const more = rows.length > LINES ? `, the first ${LINES} are shown` : "";
    this.number.textContent = `${rows.length} of ${this.rows.length}${more}`;
    refill(this.body, ...rows.slice(0, LINES).map(line));
    if (!rows.length) this.body.append(make("tr", {}, make("td.soft", { colspan: COLUMNS.length }, this.nothing())));
  }

  nothing() {
    if (this.loading) return "Loading …";
    return this.rows.length ? "Nothing matches the filter." : "There is nothing that Carillon serves.";
  }
}

function line(row) {
  const { counts } = row;
  return make("tr", {},
    make("td.optional.nowrap", {}, row.kind, make("span.soft", {}, ` ${row.api}`)),
    make("td", {}, row.namespace),
    make("td.words", {}, link(row)),
    make("td", {}, counts ? [make("span.soft", {}, `${counts.done}/${counts.nodes}`), bar(counts)] : next(row)),
    make(counts?.failed ? "td.number.bad" : "td.number", {}, counts ? counts.failed : ""),
    make(`td.words.${row.tone}`, {}, row.headline),
    make("td.number.optional", { title: row.created }, age(row.created)),
  );
}

function next(row) {
  return make("span.soft", {}, row.next ? `next ${row.next.replace("T", " ").replace("Z", " UTC")}` : "");
}
