// Which page is shown, and what the server sends for it.

import { make, merged, printable } from "./dom.js";
import { Objects } from "./lists.js";
import { ObjectPage } from "./objects.js";
import { Runs } from "./runs.js";

const main = document.getElementById("main");
const linkState = document.getElementById("link");
const notice = document.getElementById("notice");
const side = document.getElementById("node");
const root = new URL(".", location.href);

let stream = null;
let view = null;
let shownHash = null;
let followed = null;

/** `#/RESOURCE/NAMESPACE/NAME?filter`: everything that is on the screen is in the address. */
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [resource = "", namespace = "", name = ""] = path.split("/").map(decodeURIComponent);
  return { resource, namespace, name, query: new URLSearchParams(query ?? "") };
}

/** Changes what is after `?` without loading the page again. */
export function remember(changes) {
  const { resource, namespace, name, query } = route();
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const path = [resource, namespace, name].filter(Boolean).map(encodeURIComponent).join("/");
  const asked = query.toString();
  shownHash = `#/${path}${asked ? `?${asked}` : ""}`;
  history.replaceState(null, "", shownHash);
}

export function say(text) {
  document.getElementById("spoken").textContent = text;
}

export function tell(text) {
  if (notice.textContent === printable(text)) return;
  notice.textContent = printable(text);
  notice.hidden = !text;
}

export async function ask(path, body) {
  const options = body
    ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }
    : {};
  const reply = await fetch(new URL(path, root), options);
  const answer = await reply.json().catch(() => ({ error: `${reply.status} ${reply.statusText}` }));
  if (!reply.ok) throw new Error(answer.error ?? String(reply.status));
  return answer;
}

/** Follows a page. A connection that is lost comes back by itself, and the server sends all of it again. */
export function follow(asked) {
  stream?.close();
  followed = asked;
  stream = new EventSource(new URL(`api/stream?${new URLSearchParams(asked)}`, root));
  stream.onopen = () => connected(true);
  stream.onerror = () => connected(false);
  let head = null;
  stream.addEventListener("head", (event) => {
    head = JSON.parse(event.data);
    view?.head(head);
  });
  stream.addEventListener("change", (event) => {
    head = merged(head, JSON.parse(event.data));
    view?.head(head);
  });
  for (const name of ["fleet", "looks", "squares"]) {
    stream.addEventListener(name, (event) => {
      view?.[name]?.(JSON.parse(event.data));
    });
  }
  // For whoever looks from the console, and for tests.
  window.carillon = { get view() { return view; } };
}

function connected(is) {
  linkState.textContent = is ? "live" : "connection lost: is kubectl carillon dashboard still running?";
  linkState.classList.toggle("lost", !is);
  document.documentElement.dataset.connected = is;
}

/** What is not up to date, or not for whoever looks. */
export function sources(told, unreadable = []) {
  const lost = told.filter((one) => one.state === "lost" || one.state === "notYet");
  if (lost.length) {
    linkState.textContent = `the API server does not answer: ${lost[0].why}`;
    linkState.classList.add("lost");
  } else if (linkState.classList.contains("lost") && stream?.readyState === EventSource.OPEN) connected(true);
  const hidden = told.filter((one) => one.state === "notAllowed").map((one) => one.what);
  const gone = told.filter((one) => one.state === "notServed").map((one) => one.what);
  const lines = [];
  if (hidden.length) lines.push(`You may not list ${hidden.join(", ")}: what they say is not known here.`);
  if (gone.length && gone.every((what) => what.endsWith("carillon.dev")))
    lines.push(`This cluster has no ${gone.join(", ")}: Carillon's CRDs are not installed.`);
  return [...lines, ...unreadable].join("\n");
}

export function closeSide() {
  if (side.hidden) return;
  side.hidden = true;
  side.replaceChildren();
  remember({ node: "" });
  document.getElementById("grid")?.focus();
}

export function openSide(...children) {
  const close = make("button.close", { onclick: closeSide, title: "Escape" }, "Close");
  side.replaceChildren(close, ...children);
  side.hidden = false;
  close.focus();
}

function show() {
  if (location.hash === shownHash) return;
  shownHash = location.hash;
  view?.end?.();
  side.hidden = true;
  side.replaceChildren();
  tell("");
  const { resource, namespace, name, query } = route();
  main.replaceChildren(make("p.soft", {}, "Loading …"));
  for (const [id, is] of [["to-objects", resource === ""], ["to-runs", resource === "runs"]]) {
    if (is) document.getElementById(id).setAttribute("aria-current", "page");
    else document.getElementById(id).removeAttribute("aria-current");
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (resource === "") view = new Objects(main);
  else if (resource === "runs") view = new Runs(main);
  else view = new ObjectPage(main, { resource, namespace, name });
  const [group, label] = ["group", "label"].map((one) => query.get(one) ?? "");
  follow({ resource, namespace, name, group, label, zone });
}

addEventListener("hashchange", show);
// A browser has few connections to one server: a tab that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stream?.close();
  else if (followed && stream?.readyState === EventSource.CLOSED) follow(followed);
});
addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "Escape") {
    if (!side.hidden) closeSide();
    else if (typing) document.activeElement.blur();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "/") {
    document.querySelector("input[type=search]")?.focus();
    event.preventDefault();
  } else if (event.key === "o") location.hash = "#/";
  else if (event.key === "r") location.hash = "#/runs";
  else if (event.key === "g") document.getElementById("grid")?.focus();
});
show();
