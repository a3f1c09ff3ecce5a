// The broker at a glance: the last number, what passes, and what needs attention.

import { BINARY, Chart } from "./charts.js";
import { factsList, h, write } from "./dom.js";
import { bytes, count, plural, short, span } from "./text.js";

export function overview({ feed }) {
  const ticker = h("div", { class: "ticker", "aria-live": "off" });
  const [length, number] = [h("b", { class: "part-length" }), h("b", { class: "part-number" })];
  const mark = (text) => h("span", { class: "part-mark" }, text);
  const frame = h("span", { class: "mono", title: "a netstring: its length, a colon, the number, a comma" }, length, mark(":"), number, mark(","));
  const rate = h("span");
  const tiles = [
    tile("Messages in", () => [short(feed.now("in_msgs")), "/s"]),
    tile("Messages out", () => [short(feed.now("out_msgs")), "/s"]),
    tile("Bytes in", () => [bytes(feed.now("in_bytes")), "/s"]),
    tile("Bytes out", () => [bytes(feed.now("out_bytes")), "/s"]),
    tile("Connections", (v) => [count(v.connections), v.max_connections ? `of ${short(v.max_connections)}` : ""]),
    tile("Subscriptions", (v) => [count(v.subscriptions), ""]),
    tile("Unsent", (v) => [bytes(v.pending_bytes), "", v.pending_bytes > v.max_pending / 2 ? "warn" : ""]),
    tile("Slow consumers", (v) => [count(v.slow_consumers), "closed", v.slow_consumers ? "warn" : ""]),
    tile("Processor", (v) => [`${v.cpu.toFixed(0)} %`, "of a core", v.cpu > 90 ? "warn" : ""]),
    tile("Memory", (v) => [bytes(v.mem), ""]),
    tile("Longest turn", (v) => [span(v.loop_turn_seconds_max), "", v.loop_turn_seconds_max > 0.05 ? "warn" : ""]),
    tile("Reading the past", (v) => [count(v.journal.replaying), v.journal.catching_up ? `${v.journal.catching_up} catching up` : ""]),
  ];
  const charts = [
    new Chart("Messages", [["in", () => feed.rate("in_msgs")], ["out", () => feed.rate("out_msgs")]], (n) => `${short(n)}/s`, { floor: 10 }),
    new Chart("Bytes", [["in", () => feed.rate("in_bytes")], ["out", () => feed.rate("out_bytes")]], (n) => `${bytes(n)}/s`, { floor: 1024, steps: BINARY }),
    new Chart("Processor", [["one core is 100 %", () => feed.gauge("cpu")]], (n) => `${n.toFixed(0)} %`, { floor: 100 }),
    new Chart("Delays", [
      ["longest turn", () => feed.gauge("loop_turn_seconds_max", 1000)],
      ["a sync", () => feed.quotient("journal.sync_seconds", "journal.syncs").map((v) => v === null ? null : v * 1000)],
    ], (n) => span(n / 1000), { floor: 10 }),
    new Chart("Unsent bytes", [["of all clients", () => feed.gauge("pending_bytes")]], bytes, { floor: 65536, steps: BINARY }),
    new Chart("Connections", [["now", () => feed.gauge("connections")]], short, { floor: 10 }),
  ];
  const notices = h("div", { class: "notices", role: "alert" });
  const feeds = h("div", { class: "stack" });
  const element = h("div", { class: "stack" },
    notices,
    h("div", { class: "hero" },
      h("section", { class: "card last" }, h("span", {}, "Last number"), ticker, frame, rate),
      h("section", { class: "card tiles" }, tiles.map((one) => one.element))),
    h("div", { class: "charts" }, charts.map((chart) => chart.card)),
    feeds);

  return {
    element,
    sample(varz) {
      tick(ticker, varz.sequence);
      write(number, String(varz.sequence));
      write(length, String(number.textContent.length));
      const perSecond = feed.now("sequence");
      write(rate, perSecond ? `${short(perSecond)} numbers a second` : "no message at the moment");
      tiles.forEach((one) => one.show(varz));
      const times = feed.times;
      charts.forEach((chart) => chart.draw(times));
      showNotices(notices, troubles(varz));
      showFeeds(feeds, varz);
    },
    free() {
      charts.forEach((chart) => chart.free());
    },
  };
}

function tile(label, read) {
  const value = h("b");
  const unit = h("small");
  const element = h("div", { class: "tile" }, h("span", {}, label), value, unit);
  return {
    element,
    show(varz) {
      const [text, more, level = ""] = read(varz);
      write(value, text);
      write(unit, more);
      element.dataset.level = level;
    },
  };
}

/** The number, in groups of three. */
function tick(element, number) {
  const groups = count(number).split(",");
  if (element.children.length !== groups.length) {
    element.replaceChildren(...groups.map(() => h("span")));
  }
  groups.forEach((group, at) => write(element.children[at], (at ? "\u2009" : "") + group));
}

/** What an operator should know of: [level, text]. */
function troubles(varz) {
  const { journal, cluster } = varz;
  const found = [];
  if (journal.full) found.push(["bad", "Publishers are refused: the journal cannot be written. The log says why; free the disk, or make retention smaller."]);
  if (journal.lost) found.push(["bad", `${plural(journal.lost, "place")} of the journal cannot be read. "seriatim journal info" lists the numbers.`]);
  if (journal.errors && !journal.full) found.push(["warn", `${plural(journal.errors, "write")} to the journal failed since the start.`]);
  if (journal.ahead > 2) found.push(["warn", `The newest message is dated ${span(journal.ahead)} after the clock: the machine's clock was set back.`]);
  if (cluster.status && cluster.status !== "ok") found.push(["bad", `This member of the cluster is not well: ${cluster.status}.`]);
  if (varz.loop_turn_seconds_max > 0.25) found.push(["warn", `One turn of the broker took ${span(varz.loop_turn_seconds_max)}: clients waited that long.`]);
  if (varz.build === "uncompiled") found.push(["warn", "The hot modules are not compiled: each message costs some 50 times as much. Install again with a C compiler."]);
  return found;
}

function showNotices(element, found) {
  const key = JSON.stringify(found);
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...found.map(([level, text]) => h("p", { class: "notice", "data-level": level }, text)));
}

function showFeeds(element, varz) {
  const rows = [];
  for (const feed of varz.feeds) {
    rows.push([`Feed ${feed.name}`, [
      ["group", `${feed.group}:${feed.port}`], ["format", feed.codec], ["last number", count(feed.last)],
      ["datagrams", count(feed.datagrams)], ["bytes", bytes(feed.bytes)], ["errors", count(feed.errors)],
    ]]);
  }
  const { staging } = varz;
  if (staging && (staging.stages || staging.commits)) {
    rows.push(["Batches", [
      ["staged now", count(staging.stages)], ["bytes", bytes(staging.bytes)], ["committing", count(staging.committing)],
      ["committed", count(staging.commits)], ["messages", count(staging.rows)], ["expired", count(staging.expired)],
    ]]);
  }
  if (varz.cquencer && varz.cquencer.port) {
    const { cquencer } = varz;
    rows.push(["cquencer's port", [
      ["port", String(cquencer.port)], ["connections", count(cquencer.connections)], ["messages", count(cquencer.messages)], ["errors", count(cquencer.errors)],
    ]]);
  }
  const shape = rows.map(([title]) => title).join("\n");
  if (element.dataset.shape !== shape) {
    element.dataset.shape = shape;
    element.replaceChildren(...rows.map(([title, facts]) => h("section", { class: "card" }, h("h2", {}, title), factsList(facts))));
  }
  rows.forEach(([, facts], at) => facts.forEach(([, text], row) => write(element.children[at].querySelectorAll("dd")[row], text)));
}
