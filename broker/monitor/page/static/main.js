// The live page: which view is shown, the line at the top, and the keys.

import { redressAll } from "./charts.js";
import { cluster } from "./cluster.js";
import { connections } from "./connections.js";
import { h, poll, write } from "./dom.js";
import { Feed } from "./feed.js";
import { journal } from "./journal.js";
import { messages } from "./messages.js";
import { overview } from "./overview.js";
import { streams } from "./streams.js";
import { subjects } from "./subjects.js";
import { span } from "./text.js";

const VIEWS = [
  ["overview", "Overview", overview],
  ["connections", "Connections", connections],
  ["streams", "Streams", streams],
  ["subjects", "Subjects", subjects],
  ["journal", "Journal", journal],
  ["messages", "Messages", messages],
  ["cluster", "Cluster", cluster],
];
const STATES = { connecting: "connecting", live: "live", paused: "paused", trouble: "trouble", lost: "no connection" };
const $ = (id) => document.getElementById(id);

const feed = new Feed("live");
const tabs = new Map(VIEWS.map(([name, title]) => [name, h("a", { href: `#/${name}` }, title)]));
let shown = null;

function route() {
  const [, name, ...rest] = location.hash.split("/");
  const [view, title, make] = VIEWS.find(([one]) => one === name) ?? VIEWS[0];
  shown?.view.free?.();
  const made = make({ feed, ask: decoded(rest.join("/")) });
  shown = { name: view, view: made };
  $("view").replaceChildren(made.element);
  for (const [one, tab] of tabs) {
    if (one === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  tabs.get(view).scrollIntoView?.({ block: "nearest", inline: "nearest" });
  document.title = `${feed.varz?.server_name ?? "Seriatim"}: ${title}`;
  if (feed.varz) made.sample?.(feed.varz);
}

/** The text of a part of the address; as it is, if it is not well written. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

feed.addEventListener("sample", () => {
  const { varz } = feed;
  const first = $("name").dataset.id !== varz.server_id;
  if (first) {
    $("name").dataset.id = varz.server_id;
    write($("name"), varz.server_name === varz.server_id ? "Seriatim" : varz.server_name);
    tabs.get("cluster").hidden = !varz.cluster.name;
    if (shown.name === "messages") route();
  }
  const up = span(Math.max(Date.parse(varz.now) - Date.parse(varz.start), 0) / 1000);
  write($("facts"), [`Seriatim ${varz.seriatim}`, varz.build, `port ${varz.port}`, `frame ${varz.frame}`, `up ${up}`].join("  \u00b7  "));
  shown.view.sample?.(varz);
});

feed.addEventListener("state", () => {
  const state = $("state");
  state.dataset.state = feed.state;
  write(state.querySelector("span"), feed.why && feed.state !== "live" ? feed.why : STATES[feed.state]);
});

function themeOf() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // Storage may be forbidden; the system's theme holds then.
  }
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function dress(theme) {
  document.documentElement.dataset.theme = theme;
  redressAll();
}

function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // It holds until the page is left.
  }
  dress(theme);
}

function pause() {
  poll.paused = !poll.paused;
  feed.pause(poll.paused);
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const open = VIEWS.filter(([name]) => !tabs.get(name).hidden);
  if (/^[1-9]$/.test(event.key) && open[event.key - 1]) location.hash = `#/${open[event.key - 1][0]}`;
  else if (event.key === "/") document.querySelector("[data-search]")?.focus();
  else if (event.key === "p") pause();
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") $("help").showModal();
  else return;
  event.preventDefault();
});

dress(themeOf());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress(themeOf()));
$("theme").addEventListener("click", switchTheme);
$("tabs").append(...tabs.values());
tabs.get("cluster").hidden = true;
addEventListener("hashchange", route);
route();
