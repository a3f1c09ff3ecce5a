// The members of the cluster: who coordinates, who is in sync, how far each is.

import { factsList, h, poll, write } from "./dom.js";
import { Table, tableCard } from "./tables.js";
import { bytes, count, span } from "./text.js";

export function cluster() {
  const facts = h("div");
  const note = h("p", { class: "empty" });
  const members = new Table([
    { key: "remote_name", label: "member", clip: true },
    { key: "role", label: "role", level: (row) => ({ coordinator: "good", absent: "bad" })[row.role] ?? "" },
    { key: "in_sync", label: "in sync", level: (row) => (row.in_sync ? "good" : "warn"), text: (row) => (row.in_sync ? "yes" : "no") },
    { key: "connected", label: "connected", level: (row) => (row.connected ? "good" : "bad"), text: (row) => (row.connected ? "yes" : "no") },
    { key: "last", label: "last number", num: true, text: (row) => (row.last === undefined ? "" : count(row.last)) },
    { key: "lag_bytes", label: "lag", num: true, text: (row) => (row.lag_bytes === undefined ? "" : bytes(row.lag_bytes)) },
    { key: "pulse_seconds", label: "heard", num: true, text: (row) => (row.pulse_seconds === undefined ? "" : `${span(row.pulse_seconds)} ago`) },
    { key: "clock_seconds", label: "clock", num: true, text: (row) => (row.clock_seconds === undefined ? "" : `${row.clock_seconds.toFixed(3)} s`) },
    { key: "ip", label: "address", text: (row) => `${row.ip}:${row.port}` },
  ], { key: (row) => row.remote_id, sort: "remote_name", descending: false, empty: "No other member." });
  const stop = poll("routez", 1, (page, why) => {
    write(note, page ? "" : why);
    const own = page?.cluster;
    if (!own) return;
    facts.replaceChildren(factsList([
      ["cluster", own.name], ["this member", own.member], ["its role", own.role], ["coordinator", own.coordinator],
      ["state", own.status], ["epoch", count(own.epoch)], ["watermark", count(own.watermark)], ["newest in its journal", count(own.log_last)],
      ["in sync", `${count(own.view_members)}, at least ${count(own.min_in_sync)}`], ["take-overs", count(own.takeovers)],
      ["publishing paused for", span(own.stalled_seconds)], ["etcd answers", own.engine_up ? "yes" : "no"],
    ]));
    members.show(page.routes);
  });
  return {
    element: h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "This member"), facts, note), tableCard("Other members", members)),
    free: stop,
  };
}
