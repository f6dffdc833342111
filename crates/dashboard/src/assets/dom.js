// Elements are made here and nowhere else. Text stays text: nothing is ever read as markup.

/** `make("td.number", {title: "x"}, "text", child)`: text and numbers become text nodes. */
export function make(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, of] of Object.entries(value)) element.style.setProperty(key, of);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(shown));
  return element;
}

/** Puts other children into an element. What had the focus there has it again, if it is still there. */
export function refill(element, ...children) {
  const all = () => [...element.querySelectorAll("a, button, input, select")];
  const named = (one) => one.getAttribute("href") ?? one.textContent;
  const before = all();
  const at = before.indexOf(document.activeElement);
  element.replaceChildren(...children);
  if (at < 0) return;
  const same = (list) => list.filter((one) => named(one) === named(before[at]));
  const now = all();
  const next = same(now)[same(before.slice(0, at)).length] ?? now[Math.min(at, now.length - 1)];
  next?.focus({ preventScroll: true });
}

/** What a merge patch (RFC 7386) makes of something: what is null goes. */
export function merged(target, patch) {
  const isObject = (one) => one !== null && typeof one === "object" && !Array.isArray(one);
  if (!isObject(patch)) return patch;
  const result = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, merged(result.get(key), value));
  }
  return Object.fromEntries(result);
}

function shown(child) {
  return child instanceof Node ? child : document.createTextNode(printable(String(child)));
}

/** Characters that hide or turn around what is beside them are written out. */
export function printable(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

/** 4m12s, 3h5m, 12d: as kubectl writes ages. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 10) return s % 60 ? `${m}m${s % 60}s` : `${m}m`;
  if (m < 180) return `${m}m`;
  const h = Math.floor(m / 60);
  if (h < 8) return m % 60 ? `${h}h${m % 60}m` : `${h}h`;
  if (h < 48) return `${h}h`;
  return `${Math.floor(h / 24)}d`;
}

export function age(time) {
  return time ? duration((Date.now() - Date.parse(time)) / 1000) : "-";
}

export const CLASSES = ["done", "active", "failed", "waiting", "leftOut"];
const WORDS = {
  broadcastjob: ["done", "active", "failed", "waiting", "left out"],
  daemonset: ["updated", "unavailable", "excused", "old", "left out"],
  job: ["done", "active", "failed", "waiting", "not finished"],
};

/** What the classes are called on a page. */
export function words(page) {
  return WORDS[page] ?? WORDS.broadcastjob;
}

/** Done fills from the left; what has failed, what runs and what is left out never looks like progress. */
export function bar(counts, large, page) {
  const parts = ["done", "active", "failed", "waiting"].map((name) =>
    make(`span.${name}`, { style: { width: `${counts.nodes ? (100 * counts[name]) / counts.nodes : 0}%` } }));
  const told = CLASSES.map((name, at) => `${counts[name]} ${words(page)[at]}`).join(", ");
  return make(large ? "div.bar.large" : "div.bar", { role: "img", "aria-label": `${told} of ${counts.nodes}` }, parts);
}

/** Where the page of an object is. */
export function address({ resource, namespace, name }) {
  return `#/${[resource, namespace, name].map(encodeURIComponent).join("/")}`;
}

export function link(row) {
  return make("a", { href: address(row) }, row.name);
}

/** The job of a run of a CronJob. */
export function runAddress(run, namespace) {
  const resource = run.kind === "Job" ? "jobs.batch" : "broadcastjobs.carillon.dev";
  return address({ resource, namespace, name: run.name });
}
