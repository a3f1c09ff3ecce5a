// Who is connected, how far behind each is, who reads the past, and why connections closed.

import { ask, factsList, h, poll } from "./dom.js";
import { Table, filterField, tableCard } from "./tables.js";
import { ago, bytes, clock, count, short, span } from "./text.js";

const SHOWN = 500;

export function connections() {
  const before = new Map(); // by cid: what was counted, and when
  const detail = h("section", { class: "card detail", hidden: true });
  const open = new Table([
    { key: "cid", label: "cid", num: true },
    { key: "name", label: "name", clip: true, text: (row) => row.name || `${row.ip}:${row.port}` },
    { key: "user", label: "user", clip: true, text: (row) => row.authorized_user ?? "" },
    { key: "lang", label: "client", text: (row) => [row.lang, row.version].filter(Boolean).join(" "), clip: true },
    { key: "from", label: "in/s", num: true, value: (row) => row.rates.from, text: (row) => short(row.rates.from), title: "messages it publishes, per second" },
    { key: "to", label: "out/s", num: true, value: (row) => row.rates.to, text: (row) => short(row.rates.to), title: "messages it receives, per second" },
    { key: "pending_bytes", label: "unsent", num: true, text: (row) => bytes(row.pending_bytes), title: "bytes that wait for its socket" },
    { key: "behind", label: "behind", num: true, value: (row) => row.behind, text: (row) => (row.behind ? count(row.behind) : "0"), title: "messages it still has to catch up on, from the journal" },
    { key: "subscriptions", label: "subs", num: true },
    { key: "rtt", label: "round trip", num: true, value: (row) => seconds(row.rtt), text: (row) => (row.rtt ? span(seconds(row.rtt)) : "") },
    { key: "uptime", label: "connected", num: true, value: (row) => row.age, text: (row) => span(row.age) },
  ], { key: (row) => row.cid, sort: "pending_bytes", chosen: (row) => showDetail(detail, row), empty: "No client is connected." });
  const replays = new Table([
    { key: "cid", label: "cid", num: true },
    { key: "kind", label: "kind", level: () => "" },
    { key: "asked", label: "asked for", clip: true, mono: true },
    { key: "next", label: "next number", num: true, text: (row) => count(row.next) },
    { key: "behind", label: "behind", num: true, text: (row) => count(row.behind) },
    { key: "state", label: "state", level: (row) => ({ parked: "warn", waiting: "good" })[row.state] ?? "" },
  ], { key: (row) => `${row.cid} ${row.kind} ${row.asked} ${row.at}`, sort: "behind", empty: "No replay, no catch-up: all subscriptions are live." });
  const closed = new Table([
    { key: "cid", label: "cid", num: true },
    { key: "name", label: "name", clip: true, text: (row) => row.name || `${row.ip}:${row.port}` },
    { key: "reason", label: "why", level: (row) => (/Closed$/.test(row.reason) ? "" : /Slow|Auth|Exceed|Violation|Error/.test(row.reason) ? "bad" : "warn") },
    { key: "stop", label: "when", value: (row) => row.stop, text: (row) => clock(Date.parse(row.stop) / 1000) },
    { key: "in_msgs", label: "in", num: true, text: (row) => short(row.in_msgs) },
    { key: "out_msgs", label: "out", num: true, text: (row) => short(row.out_msgs) },
  ], { key: (row) => row.cid, sort: "stop", empty: "No connection has closed since the start." });

  const total = h("span", { class: "dim" });
  const openCard = tableCard("Connections", open, filterField("Filter by name, user, client ...", open));
  openCard.querySelector("h2").append(total);
  let behind = new Map();
  const stops = [
    poll("replayz?limit=500", 2, (page) => {
      if (!page) return;
      behind = new Map(page.replays.filter((one) => one.kind === "catch-up").map((one) => [one.cid, one.behind]));
      replays.show(page.replays.map((one, at) => ({ ...one, at })));
    }),
    poll(`connz?sort=pending&auth=1&limit=${SHOWN}`, 2, (page, why) => {
      if (!page) return void (total.textContent = why);
      const now = Date.parse(page.now) / 1000;
      open.show(page.connections.map((row) => ({ ...row, age: Math.max(now - Date.parse(row.start) / 1000, 0), rates: rates(before, row, now), behind: behind.get(row.cid) ?? 0 })));
      total.textContent = page.total > SHOWN ? `${count(page.total)}; the ${SHOWN} with most unsent bytes are shown` : count(page.total);
    }),
    poll("connz?state=closed&sort=stop&limit=50", 5, (page) => page && closed.show(page.connections)),
  ];
  return {
    element: h("div", { class: "stack" }, openCard, detail, h("div", { class: "two" },
      tableCard("Reading the past", replays), tableCard("Recently closed", closed))),
    free: () => stops.forEach((stop) => stop()),
  };
}

function rates(before, row, now) {
  const last = before.get(row.cid);
  before.set(row.cid, { now, from: row.in_msgs, to: row.out_msgs });
  const passed = last ? now - last.now : 0;
  if (passed <= 0) return { from: 0, to: 0 };
  return { from: (row.in_msgs - last.from) / passed, to: (row.out_msgs - last.to) / passed };
}

/** "1.5ms" -> 0.0015. */
function seconds(text = "") {
  const scale = { s: 1, ms: 1e-3, "\u00b5s": 1e-6, us: 1e-6, ns: 1e-9 };
  const parts = /^([\d.]+)(\D+)$/.exec(text);
  return parts ? Number(parts[1]) * (scale[parts[2]] ?? 1) : 0;
}

async function showDetail(card, row) {
  card.hidden = false;
  let found = row;
  let why = "";
  try {
    const page = await ask(`connz?cid=${row.cid}&subs=detail&auth=1&subs_limit=200`);
    found = page.connections[0] ?? row;
    if (!page.connections.length) why = "it has closed";
  } catch (error) {
    why = error.message;
  }
  const now = Date.now() / 1000;
  const facts = [
    ["address", `${found.ip}:${found.port}`], ["connected", ago(Date.parse(found.start) / 1000, now)],
    ["last activity", ago(Date.parse(found.last_activity) / 1000, now)], ["frame", found.frame ?? ""],
    ["messages in", count(found.in_msgs)], ["messages out", count(found.out_msgs)],
    ["bytes in", bytes(found.in_bytes)], ["bytes out", bytes(found.out_bytes)],
    ["TLS", [found.tls_version, found.tls_cipher_suite].filter(Boolean).join(" ") || "none"],
  ];
  const subs = new Table([
    { key: "subject", label: "subject", clip: true, mono: true },
    { key: "qgroup", label: "queue group", clip: true },
    { key: "sid", label: "sid" },
    { key: "msgs", label: "messages", num: true, text: (one) => count(one.msgs) },
  ], { key: (one) => one.sid, empty: "No subscription." });
  subs.show(found.subscriptions_list_detail ?? []);
  card.replaceChildren(h("h2", {}, `Connection ${row.cid}`, h("span", { class: "dim" }, why || found.name || "")), factsList(facts), h("h3", {}, "Subscriptions"), subs.element);
}
