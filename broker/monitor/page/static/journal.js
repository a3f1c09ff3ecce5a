// The journal: how far it reaches, what it may become, and its files.

import { Chart } from "./charts.js";
import { factsList, h, makeMeter, poll, s, write } from "./dom.js";
import { Table, tableCard } from "./tables.js";
import { ago, bytes, clock, count, plural, span } from "./text.js";

export function journal({ feed }) {
  const facts = h("div");
  const strip = h("div", { class: "segments" });
  const note = h("p", { class: "dim" });
  const room = makeMeter();
  const roomText = h("p", { class: "dim" });
  const chart = new Chart("Syncs", [["time of a sync", () => feed.quotient("journal.sync_seconds", "journal.syncs").map((v) => (v === null ? null : v * 1000))]], (n) => span(n / 1000), { floor: 5 });
  const syncs = new Chart("Numbers", [["given", () => feed.rate("sequence")]], (n) => `${count(n)}/s`, { floor: 10 });
  const table = new Table([
    { key: "first", label: "first number", num: true, text: (row) => count(row.first) },
    { key: "last", label: "last number", num: true, text: (row) => (row.last < row.first ? "empty" : count(row.last)) },
    { key: "messages", label: "messages", num: true, value: (row) => row.last - row.first + 1, text: (row) => count(row.last - row.first + 1) },
    { key: "bytes", label: "bytes", num: true, text: (row) => bytes(row.bytes) },
    { key: "oldest", label: "from", text: (row) => (row.oldest ? clock(row.oldest) : "") },
    { key: "newest", label: "to", text: (row) => (row.newest ? clock(row.newest) : "") },
  ], { key: (row) => row.first, sort: "first", empty: "No segment." });

  const stop = poll("journalz?limit=200", 3, (page, why) => {
    if (!page) return void write(note, why);
    if (page.store === "none") return void write(note, "There is no journal: numbers begin at 1 at each start, and no message can be read again.");
    const now = Date.parse(page.now) / 1000;
    const rows = [
      ["first number", count(page.first)], ["last number", count(page.last)],
      ["messages", count(page.last - page.first + 1)], ["bytes", bytes(page.bytes)],
      ["reaches back", page.oldest ? span(Math.max(now - page.oldest, 0)) : "empty"], ["newest message", ago(page.newest, now) || "none"],
      ["on disk up to", page.synced ? count(page.synced) : "not known"], ["sync", page.sync ?? "never"],
      ["window", page.window_bytes ? bytes(page.window_bytes) : "none"], ["segment size", page.segment_bytes ? bytes(page.segment_bytes) : ""],
      ["retention by age", page.retain_seconds ? span(page.retain_seconds) : "no limit"], ["retention by count", page.retain_count ? count(page.retain_count) : "no limit"],
      ["epoch", count(page.epoch)], ["journal", page.journal], ["directory", page.path || (page.store === "memory" ? "in memory" : "")],
    ];
    facts.replaceChildren(factsList(rows));
    const most = page.retain_bytes ?? page.ring_bytes ?? 0;
    room.rect.setAttribute("width", String(most ? Math.min((100 * page.bytes) / most, 100) : 0));
    write(roomText, most ? `${bytes(page.bytes)} of ${bytes(most)}; beyond that, the oldest segments are deleted` : `${bytes(page.bytes)}; no limit by size`);
    drawSegments(strip, page.segments);
    write(note, page.num_segments > page.segments.length ? `${plural(page.num_segments, "segment")}; the newest ${page.segments.length} are shown` : `${plural(page.num_segments, "segment")}, oldest to newest; each as wide as it is large`);
    table.show(page.segments);
  });
  return {
    element: h("div", { class: "stack" },
      h("section", { class: "card" }, h("h2", {}, "Journal"), facts),
      h("section", { class: "card" }, h("h2", {}, "Segments"), strip, note, h("div", { class: "bar" }), room.meter, roomText),
      h("div", { class: "charts" }, chart.card, syncs.card),
      tableCard("Files", table)),
    sample() {
      chart.draw(feed.times);
      syncs.draw(feed.times);
    },
    free() {
      stop();
      chart.free();
      syncs.free();
    },
  };
}

function drawSegments(element, newestFirst) {
  const segments = [...newestFirst].reverse();
  const sizes = segments.map((one) => Math.max(one.bytes, 1));
  const total = sizes.reduce((sum, size) => sum + size, 0) || 1;
  let left = 0;
  const rects = segments.map((one, at) => {
    const width = Math.max((1000 * sizes[at]) / total, 1.5);
    const rect = s("rect", { x: left, y: 0, width: Math.max(width - 2, 1), height: 34, rx: 3, class: at === segments.length - 1 ? "newest" : undefined },
      s("title", {}, `${count(one.first)} to ${count(Math.max(one.last, one.first))}, ${bytes(one.bytes)}`));
    left += width;
    return rect;
  });
  element.replaceChildren(s("svg", { viewBox: `0 0 ${Math.max(left, 1)} 34`, preserveAspectRatio: "none", role: "img", "aria-label": plural(segments.length, "segment") }, rects));
}
