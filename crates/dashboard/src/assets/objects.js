// The page of one object.

import { CLASSES, address, age, bar, duration, link, make, printable, refill, runAddress, words } from "./dom.js";
import { Grid, sample } from "./grid.js";
import { ask, closeSide, openSide, remember, route, say, sources, tell } from "./app.js";
import { outcomeWords, strip } from "./runs.js";

const sum = (counts) => CLASSES.reduce((all, name) => all + counts[name], 0);

export class ObjectPage {
  constructor(main, at) {
    Object.assign(this, { main, at, grid: null, told: null });
    const { query } = route();
    this.filterText = query.get("q") ?? "";
    this.classes = new Set((query.get("state") ?? "").split(",").filter(Boolean));
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => {
      this.chips = null;
      if (this.told?.counts) this.counts(this.told);
    };
    this.scheme.addEventListener("change", this.repaint);
    this.keys = SECTIONS.map(() => null);
    this.sections = SECTIONS.map(() => make("div"));
    this.clock = setInterval(() => this.told?.conditions && this.refresh(this.told), FRESH);
    this.parts = Object.fromEntries(["title", "buttons", "said", "counts", "tools", "grid", "rest", "decisions"].map((name) => [name, make("div")]));
  }

  end() {
    this.asked = null;
    clearInterval(this.clock);
    this.scheme.removeEventListener("change", this.repaint);
    this.endGrid();
  }

  forget() {
    this.answered = null;
    this.asked = null;
    this.parts.said.replaceChildren();
    closeSide();
  }

  endGrid() {
    this.grid?.end();
    this.grid = null;
    this.groupingsKey = null;
    this.shown = null;
    document.getElementById("tip")?.remove();
    this.parts.grid.replaceChildren();
    this.parts.tools.replaceChildren();
  }

  head(told) {
    // Another object of the same name: what was said of the one before is not true of it.
    if (this.uid && told.uid && this.uid !== told.uid) this.forget();
    this.uid = told.uid ?? this.uid;
    this.told = told;
    document.title = `${told.name} · Carillon`;
    document.getElementById("scope").textContent = "";
    tell(sources(told.sources, told.unreadable));
    if (told.page === "loading" || told.page === "missing") {
      const gone = `There is no ${told.kind} ${told.name} in namespace ${told.namespace}.`;
      this.main.replaceChildren(make("p", {}, told.page === "loading" ? "Loading …" : gone));
      this.built = false;
      return;
    }
    if (!this.built) {
      this.main.replaceChildren(...Object.values(this.parts));
      const side = (wanted) => make("section", {}, this.sections.filter((_, at) => SECTIONS[at][0] === wanted));
      this.parts.rest.replaceChildren(make("div.columns", {}, side("left"), side("right")));
      this.built = true;
      const node = route().query.get("node");
      if (node) this.openNode(node);
    }
    // Where nodes or results are no longer known, squares would say what nobody knows.
    if (this.grid && !told.counts) this.endGrid();
    this.title(told);
    this.buttons(told);
    this.counts(told);
    this.groupings(told);
    this.refresh(told);
  }

  refresh(told) {
    this.fill(told);
    this.decisions(told);
  }

  title(told) {
    const tone = /^(Failed|Stalled|Stopping)/.test(told.headline) ? "p.headline.bad" : "p.headline";
    const { etaSeconds: eta, etaEarliestSeconds: earliest, etaLatestSeconds: latest } = told.progress ?? {};
    this.parts.title.replaceChildren(
      make("h1", {}, told.name, " ", make("small", {}, `${told.kind} ${told.apiVersion} · namespace ${told.namespace} · ${age(told.created)} old`)),
      make(tone, { id: "headline" }, told.deleting ? "Being deleted. " : "", told.headline,
        eta ? make("span.soft", { title: `probably between ${duration(earliest)} and ${duration(latest)}` },
          ` · about ${duration(eta)} left`) : ""),
      told.next ? make("p", { id: "next" }, `Next: ${told.next}.`) : "",
    );
  }

  buttons(told) {
    const key = JSON.stringify([told.verbs, told.acts, this.busy]);
    if (key === this.buttonsKey) return;
    this.buttonsKey = key;
    const offered = told.verbs.map((one) => make("button", {
      "data-verb": one.verb,
      disabled: !told.acts || !one.offered,
      "aria-disabled": String(!!this.busy),
      title: told.acts ? one.why : "Read only: start it with kubectl carillon dashboard --actions",
      onclick: () => this.act(one),
    }, one.label));
    refill(this.parts.buttons, make("div.tools", {}, offered));
  }

  async act(one) {
    if (this.busy) return;
    const { resource, namespace, name, uid, generation } = this.told;
    if (!confirm(`${one.label}: ${this.told.kind} ${name} in namespace ${namespace}?`)) return;
    this.busy = true;
    this.buttons(this.told);
    try {
      const answer = await ask("api/act", { verb: one.verb, resource, namespace, name, uid, generation });
      this.said(answer.said);
    } catch (error) {
      this.said(error.message, true);
    }
    this.busy = false;
    this.buttons(this.told);
  }

  said(text, bad) {
    this.parts.said.replaceChildren(make(bad ? "pre.said.bad" : "pre.said", { role: "status" }, text));
  }

  counts(told) {
    const { counts } = told;
    if (!counts) {
      this.chips = null;
      return this.parts.counts.replaceChildren();
    }
    const names = words(told.page);
    if (this.chips && this.chipsOf === told.page) return this.recount(told, counts);
    this.chipsOf = told.page;
    const chips = this.chips = CLASSES.map((name, at) => make("button.chip", {
      "aria-pressed": String(this.classes.has(name)), "data-class": name,
      onclick: () => this.toggle(name), title: `Show only: ${names[at]}`,
    }, sample(name), make("b", {}, counts[name]), ` ${names[at]}`));
    this.total = make("span", { id: "total" });
    this.bar = make("div");
    this.parts.counts.replaceChildren(this.bar, make("div.legend", {}, chips, this.total));
    return this.recount(told, counts);
  }

  /** What has the focus stays: only numbers change. */
  recount(told, counts) {
    CLASSES.forEach((name, at) => {
      this.chips[at].querySelector("b").textContent = counts[name];
      this.chips[at].setAttribute("aria-pressed", String(this.classes.has(name)));
    });
    const wrong = sum(counts) === counts.nodes ? "" : ": the counts do not sum up";
    this.total.textContent = `${counts.nodes} ${told.page === "job" ? "in all" : "nodes"}${wrong}`;
    this.bar.replaceChildren(bar(counts, true, told.page));
  }

  toggle(name) {
    if (!this.classes.delete(name)) this.classes.add(name);
    remember({ state: [...this.classes].join(",") });
    this.counts(this.told);
    this.filter();
  }

  filter() {
    this.grid?.setFilter({ text: this.filterText.toLowerCase(), classes: this.classes });
    this.tellShown();
  }

  groupings(told) {
    const key = JSON.stringify(told.groupings);
    if (!this.grid || this.groupingsKey === key) return;
    this.groupingsKey = key;
    const [group, label] = ["group", "label"].map((one) => route().query.get(one) ?? "");
    // The server draws other squares then: the page begins anew.
    const choose = (what, value) => {
      const { resource, namespace, name, query } = route();
      if (value) query.set(what, value);
      else query.delete(what);
      location.hash = `${address({ resource, namespace, name })}?${query}`;
    };
    const select = make("select", {
      id: "group", "aria-label": "Group nodes by label",
      onchange: () => choose("group", select.value),
    }, make("option", { value: "" }, "no groups"), (told.groupings ?? []).map((label) =>
      make("option", { value: label, selected: label === group }, label)));
    const search = make("input", {
      type: "search", placeholder: "node, reason, message", "aria-label": "Filter nodes", value: this.filterText,
      oninput: () => {
        this.filterText = search.value;
        remember({ q: search.value });
        this.filter();
      },
    });
    const only = make("input", {
      id: "label", type: "search", placeholder: "label, as zone=a", "aria-label": "Only nodes with these labels", value: label,
      onchange: () => choose("label", only.value.trim()),
    });
    this.shown = make("span.soft", { id: "shown" });
    this.parts.tools.replaceChildren(make("div.tools", {},
      told.groupings ? make("label", {}, "group by ", select) : null, search, told.groupings ? only : null, this.shown));
    this.filter();
  }

  fleet(told) {
    // Where a label selects nothing the way back has to stay.
    if (!told.nodes.length && !route().query.get("label")) {
      this.endGrid();
      return;
    }
    if (!this.grid) {
      const tip = make("div", { id: "tip", hidden: true });
      document.body.append(tip);
      const canvas = make("canvas", {
        id: "grid", tabindex: 0, role: "application",
        "aria-label": "Grid of nodes. Arrow keys move, n goes to the next failed one, Enter explains it.",
      });
      this.parts.grid.replaceChildren(canvas);
      this.grid = new Grid(canvas, tip, (node) => this.openNode(node), say);
      this.grid.filter = { text: this.filterText.toLowerCase(), classes: this.classes };
    }
    this.grid.fleet(told);
    if (this.told) this.groupings(this.told);
  }

  looks(told) {
    this.grid?.add(told);
  }

  squares(told) {
    this.grid?.update(told);
    this.tellShown();
  }

  tellShown() {
    if (!this.shown || !this.grid) return;
    const [shown, all] = [this.grid.shown.length, this.told?.counts?.nodes ?? 0];
    this.shown.textContent = shown === all ? `${all} shown` : `${shown} of ${all} shown`;
  }

  async openNode(node) {
    if (this.told.page === "job") return openSide(make("h2", {}, `Index ${node}`), make("p", {}, this.grid?.told(Number(node)) ?? ""));
    remember({ node });
    this.asked = node;
    const { resource, namespace, name } = this.told;
    const answer = await ask(`api/node?${new URLSearchParams({ resource, namespace, name, node })}`).then(
      (one) => explained(one, this.told), (error) => [make("h2", {}, node), make("p.bad", {}, error.message)]);
    // Of two that were asked about the last one counts, and none after the page has been left.
    if (this.asked === node) openSide(...answer);
    return null;
  }

  /** The operator is asked only when somebody wants to know. */
  async askOperator() {
    if (this.isAsking) return;
    this.isAsking = true;
    this.decisions(this.told);
    say("Asking the operator");
    const { resource, namespace, name, uid } = this.told;
    const answer = await ask(`api/decisions?${new URLSearchParams({ resource, namespace, name, uid })}`).catch(
      (error) => ({ error: error.message }));
    this.isAsking = false;
    if (this.told.uid === uid) this.answered = answer;
    this.decisions(this.told);
    say(answer.error ?? `${answer.decisions.length} decisions`);
  }

  decisions(told) {
    const key = JSON.stringify([this.answered, this.isAsking, Math.floor(Date.now() / FRESH)]);
    if (key === this.decisionsKey) return;
    this.decisionsKey = key;
    const label = this.isAsking ? "Asking …" : this.answered ? "Ask again" : "Ask the operator";
    refill(this.parts.decisions, make("h2", {}, "Decisions of the operator"),
      make("div.tools", {}, make("button", { id: "ask", "aria-disabled": String(!!this.isAsking), onclick: () => this.askOperator() }, label)),
      ...(this.answered ? decided(this.answered) : []));
  }

  /** Only what has changed is written anew, or has an age that is no longer true. */
  fill(told) {
    const now = Math.floor(Date.now() / FRESH);
    SECTIONS.forEach(([, of, write], at) => {
      const found = of(told);
      const key = found ? JSON.stringify([found, now]) : "";
      if (key === this.keys[at]) return;
      this.keys[at] = key;
      refill(this.sections[at], ...(found ? write(found) : []));
    });
  }
}

/** Milliseconds for which an age that is shown is true enough. */
const FRESH = 30000;

/** What is below the squares: in which column, what of the page it is made from (nothing: it is not there), and how. */
const SECTIONS = [
  ["left", (told) => told.failures?.length && told.failures, failures],
  ["left", (told) => told.groups, groups],
  ["left", ({ runs: all, overlap, missed, namespace }) => all && { runs: all, overlap, missed, namespace }, runs],
  ["left", (told) => told.revisions?.length && told.revisions, revisions],
  ["right", (told) => (told.outlook || told.noOutlook) && pick(told, "outlook", "noOutlook", "schedule", "suspended"), outlook],
  ["right", (told) => told.family?.length > 1 && pick(told, "family", "resource", "namespace", "name"), family],
  ["right", (told) => told.facts && [["Image", told.image], ...told.facts], spec],
  ["right", (told) => told.conditions?.length && told.conditions, conditions],
  ["right", (told) => told.events, events],
];

function pick(told, ...names) {
  return Object.fromEntries(names.map((name) => [name, told[name]]));
}

function spec(facts) {
  return [make("h2", {}, "Spec"), definitions(facts)];
}

function table(titles, rows) {
  return make("div.scroll", {}, make("table", {},
    make("thead", {}, make("tr", {}, titles.map((title) => make("th", { scope: "col" }, title)))),
    make("tbody", {}, rows)));
}

function definitions(pairs) {
  return make("dl", {}, pairs.filter(([, value]) => value).map(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}

function failures(all) {
  return [make("h2", { id: "failures" }, "Failures"), table(["Nodes", "What came out", "Among them", "They share"],
    all.map((one) => make("tr", {},
      make("td.number.bad", {}, one.count),
      make("td.words", {}, one.sentence.replace(/^Failed: /, "")),
      make("td.words", {}, one.nodes.join(", ")),
      make("td.words", {}, one.labels.map((label) => make("div", {}, `${label.key}=${label.value}`, make("span.soft", {}, ` (${label.nodes} nodes have it)`)))))))];
}

function groups(all) {
  return [make("h2", {}, "Where all nodes stand"), table(["Nodes", "Place", "Reason", "Among them", "For example"],
    all.map((one) => make("tr", {},
      make("td.number", {}, one.count),
      make("td", {}, one.place),
      make("td.words", {}, one.reason),
      make("td.words", {}, one.nodes.join(", ")),
      make("td.words", {}, one.example))))];
}

function runs(told) {
  const { overlap } = told;
  const last = [...told.runs].reverse().slice(0, 20);
  return [
    make("h2", {}, "Runs"), told.runs.length ? strip(told.runs, told.namespace) : make("p.soft", {}, "No run is kept."),
    overlap ? make("p.soft", {}, `Half of the last ${overlap.runs} took ${duration(overlap.medianSeconds)} at most, the longest ${duration(overlap.longestSeconds)}.`,
      overlap.longer ? ` ${overlap.longer} took longer than the time until the next.` : "") : null,
    told.missed.count ? make("p.bad", {}, `${told.missed.count} scheduled times never ran, the last at ${told.missed.last}.`) : null,
    table(["Run", "Scheduled", "Outcome", "Took"], last.map((run) => make("tr", {},
      make("td.words", {}, make("a", { href: runAddress(run, told.namespace) }, run.name)),
      make("td", {}, run.scheduled ?? "on request"),
      make("td", {}, outcomeWords(run), run.overlaps ? make("span.care", {}, " overlaps") : ""),
      make("td.number", {}, duration(run.seconds))))),
  ].filter(Boolean);
}

function outlook(told) {
  if (told.noOutlook) return [make("h2", {}, "Next runs"), make("p.bad", {}, told.noOutlook)];
  const { runs: next, timeZone, yourTimeZone, clockChanges } = told.outlook;
  const same = timeZone === yourTimeZone;
  const titles = [timeZone, ...(same ? [] : [yourTimeZone]), "In"];
  return [
    make("h2", {}, "Next runs"), make("p.soft", {}, `${told.schedule} in ${timeZone}${told.suspended ? ": suspended, none is started" : ""}`),
    table(titles, next.map((run) => make("tr", {}, make("td", {}, run.local), same ? null : make("td", {}, run.yours),
      make("td.number", {}, duration(run.inSeconds))))),
    ...clockChanges.map((change) => make("p.care", {}, `The clock changes at ${change.at}: ${change.effect}.`)),
  ];
}

function revisions(all) {
  return [make("h2", {}, "Revisions"), table(["Revision", "Image", "Created", "Cause"], all.map((one) => make("tr", {},
    make("td", {}, one.number, one.current ? make("span.good", {}, " current") : ""),
    make("td.words", {}, one.image), make("td.nowrap", {}, age(one.created)), make("td.words", {}, one.cause))))];
}

function family(told) {
  return [make("h2", {}, "This job and its retries"), table(["Job", "Stands"], told.family.map((one) => make("tr", {},
    make("td.words", {}, one.name === told.name ? one.name : link({ ...told, name: one.name })),
    make("td", {}, one.deleting ? "deleted" : one.standing))))];
}

function conditions(all) {
  return [make("h2", {}, "Conditions"), table(["Type", "Status", "Reason", "Message", "Since"], all.map((one) => make("tr", {},
    make("td", {}, one.type), make("td", {}, one.status), make("td.words", {}, one.reason),
    make("td.words", {}, one.message), make("td.number", {}, age(one.since)))))];
}

function events(all) {
  if (!all.length) return [make("h2", {}, "Events"), make("p.soft", {}, "None.")];
  return [make("h2", {}, "Events"), table(["Last", "Reason", "Message"], all.map((one) => make("tr", {},
    make("td.nowrap", {}, age(one.last), one.count > 1 ? make("span.soft", {}, ` ×${one.count}`) : ""),
    make(one.type === "Warning" ? "td.care" : "td", {}, one.reason), make("td.words", {}, one.message))))];
}

function decided({ error, decisions: all, asked, silent, unreadable }) {
  if (error) return [make("pre.said.bad", {}, error)];
  const notes = silent.map((one) => make("p.care", {}, `Not asked: ${one}`));
  if (unreadable) notes.push(make("p.care", {}, `${unreadable} decisions cannot be read by this version.`));
  if (!all.length) return [...notes, make("p.soft", {}, `None is remembered by ${asked.join(", ")}. It forgets when it ends, and when it decides about many others.`)];
  const several = asked.length > 1;
  return [...notes, table(["Age", "What was to be done", "What became of it", "Looks again", ...(several ? ["Told by"] : [])], all.map((one) => make("tr", {},
    make("td.nowrap", { title: one.time }, age(one.time)),
    make("td.words", {}, one.steps.length ? one.steps.map((step) => make("div", {}, step)) : one.repeated ? `nothing, ${one.repeated + 1} times` : "nothing"),
    make(one.bad ? "td.words.bad" : "td.words", {}, one.outcome),
    make("td.nowrap", { title: one.wake }, one.wake ? `after ${duration((Date.parse(one.wake) - Date.parse(one.time)) / 1000)}` : "-"),
    several ? make("td.words", {}, one.toldBy) : null)))];
}

/** `explain --node`. */
function explained(one, told) {
  const why = one.reason ? ` ${one.reason}` : "";
  const parts = [
    make("h2", { id: "explained" }, one.nodeName), make("p", {}, make("b", {}, one.place), why),
    make("p", {}, `Next: ${one.next}`),
  ];
  const attempts = (title, all) => all.length ? [make("h2", {}, title), table(["Attempt", "Outcome", "Started", "Took", "Pod"],
    all.map((attempt) => make("tr", {}, make("td.number", {}, attempt.attempt),
      make("td.words", {}, attempt.state, attempt.reason && attempt.state !== "Succeeded" ? ` ${attempt.reason}` : "",
        attempt.exitCode ? `, exit ${attempt.exitCode}` : "", attempt.message ? make("pre", {}, attempt.message) : ""),
      make("td.nowrap", {}, attempt.startTime ?? "-"), make("td.number", {}, duration(attempt.seconds)),
      make("td.words", {}, attempt.podName))))] : [];
  if (one.attempts) parts.push(...attempts("Attempts", one.attempts));
  for (const other of one.family ?? []) parts.push(...attempts(`Attempts of ${other.job}`, other.attempts));
  if (one.pods?.length) parts.push(make("h2", {}, "Pods"), table(["Pod", "State", "Revision", "Age"], one.pods.map((pod) =>
    make("tr", {}, make("td.words", {}, pod.name), make("td", {}, pod.state),
      make("td", {}, pod.number ?? pod.revision, pod.current ? make("span.good", {}, " current") : ""), make("td.number", {}, age(pod.created))))));
  if (one.attempts?.length) parts.push(make("h2", {}, "Its log"),
    make("pre", {}, `${printable(told.command)} logs ${printable(told.name)} --node ${printable(one.nodeName)}`));
  if (one.checks?.length) {
    parts.push(make("h2", {}, "Checks"), table(["Check", "Result", "Found"], one.checks.map((check) => make("tr", {},
      make("td", {}, check.check), make(check.passed ? "td.good" : "td.bad", {}, check.passed ? "pass" : "FAIL"),
      make("td.words", {}, check.found)))));
    for (const finding of one.checks.flatMap((check) => check.findings)) {
      parts.push(make("p", {}, make("b", {}, finding.reason), `: ${finding.text}`));
      for (const remedy of finding.remedies) parts.push(make("p", {}, remedy.what), remedy.write ? make("pre", {}, remedy.write) : "");
    }
  }
  return parts;
}
