// Streams and their consumers: what each holds, what is pending, and why nothing is sent.

import { h, poll } from "./dom.js";
import { Table, filterField, tableCard } from "./tables.js";
import { bytes, clock, count } from "./text.js";

const LEVELS = { reading: "good", idle: "good", held: "warn", parked: "bad", asleep: "warn", paused: "warn", counting: "" };

export function streams() {
  const listed = new Table([
    { key: "name", label: "stream", clip: true },
    { key: "subjects", label: "subjects", clip: true, mono: true },
    { key: "messages", label: "messages", num: true, text: (row) => count(row.messages) },
    { key: "bytes", label: "bytes", num: true, text: (row) => bytes(row.bytes) },
    { key: "first", label: "first", num: true, text: (row) => count(row.first) },
    { key: "last", label: "last", num: true, text: (row) => count(row.last) },
    { key: "newest", label: "newest", text: (row) => (row.newest > 0 ? clock(row.newest) : "") },
    { key: "consumers", label: "consumers", num: true },
  ], { key: (row) => row.name, sort: "name", descending: false, empty: "No stream yet. \"nats stream add\" makes one; docs/streams.md says more." });
  const consumers = new Table([
    { key: "stream", label: "stream", clip: true },
    { key: "name", label: "consumer", clip: true },
    { key: "state", label: "state", level: (row) => LEVELS[row.state] ?? "" },
    { key: "pending", label: "pending", num: true, text: (row) => count(row.pending), title: "messages that it has not been sent yet" },
    { key: "unacked", label: "unacknowledged", num: true, text: (row) => count(row.unacked) },
    { key: "redelivered", label: "sent again", num: true, text: (row) => count(row.redelivered) },
    { key: "waiting", label: "requests", num: true, title: "pull requests that wait for messages" },
    { key: "floor", label: "acknowledged up to", num: true, text: (row) => count(row.floor) },
    { key: "lost", label: "lost", num: true, title: "deleted by retention before it had them" },
  ], { key: (row) => `${row.stream} ${row.name}`, sort: "pending", empty: "No consumer." });
  const note = h("p", { class: "empty", hidden: true });
  const stop = poll("jsz?streams=1&consumers=1&config=1", 2, (page, why) => {
    note.hidden = Boolean(page) && !page.disabled;
    if (!page) return void (note.textContent = why);
    if (page.disabled) return void (note.textContent = "Streams are off. Start the broker with -js, and JetStream clients find their API here.");
    const details = (page.account_details ?? []).flatMap((account) => account.stream_detail ?? []);
    listed.show(details.map(({ name, config, state }) => ({
      name, subjects: (config?.subjects ?? []).join(" "), messages: state.messages, bytes: state.bytes,
      first: state.first_seq, last: state.last_seq, newest: Date.parse(state.last_ts) / 1000, consumers: state.consumer_count,
    })));
    consumers.show(details.flatMap((stream) => (stream.consumer_detail ?? []).map((one) => ({
      stream: stream.name, name: one.name, state: one.state ?? "", pending: one.num_pending, unacked: one.num_ack_pending,
      redelivered: one.num_redelivered, waiting: one.num_waiting, floor: one.ack_floor.stream_seq, lost: one.lost ?? 0,
    }))));
  });
  const filter = filterField("Filter streams and consumers", listed, consumers);
  return {
    element: h("div", { class: "stack" }, note, tableCard("Streams", listed, filter), tableCard("Consumers", consumers)),
    free: stop,
  };
}
