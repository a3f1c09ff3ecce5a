// The busiest subjects, as a list and as a tree: counted from the newest records of the journal.
//
// Each answer counts the messages since the one before. If there were more than it has counted, the
// rest is taken to be like it. Rates fade over half a minute.

import { h, makeMeter, poll, write } from "./dom.js";
import { Table, filterField, tableCard } from "./tables.js";
import { bytes, count, short } from "./text.js";

const PERIOD = 1;
const FADE = 15; // seconds after which an old rate counts a third
const KEPT = 2000;
const LISTED = 40;
const CHILDREN = 30;

export function subjects() {
  const rates = new Map(); // by subject: messages and bytes a second
  let after = 0;
  let polled = 0;
  let weight = 0; // of what was seen so far; 1 after a while
  const table = new Table([
    { key: "subject", label: "subject", clip: true, mono: true },
    { key: "msgs", label: "messages/s", num: true, text: (row) => short(row.msgs) },
    { key: "bytes", label: "bytes/s", num: true, text: (row) => bytes(row.bytes) },
  ], { key: (row) => row.subject, sort: "msgs", empty: "No message in the last half minute." });
  const tree = new Tree();
  const note = h("span", { class: "dim" });
  const treeCard = h("section", { class: "card" }, h("h2", {}, "By token", note), tree.element);

  const stop = poll(() => `recentz?after=${after}`, PERIOD, (page, why) => {
    if (!page) return void write(note, why);
    const now = performance.now() / 1000;
    const passed = polled ? now - polled : PERIOD;
    const came = after ? Math.max(page.newest - after, 0) : page.messages;
    const scale = page.messages ? came / page.messages : 0;
    const kept = polled ? Math.exp(-passed / FADE) : 0;
    for (const [subject, rate] of rates) {
      rate.msgs *= kept;
      rate.bytes *= kept;
      if (rate.msgs < 0.005) rates.delete(subject);
    }
    const share = polled ? (scale * (1 - kept)) / passed : 0; // the first answer says nothing of time
    for (const one of share ? page.subjects : []) {
      const rate = rates.get(one.subject) ?? { msgs: 0, bytes: 0 };
      rate.msgs += one.msgs * share;
      rate.bytes += one.bytes * share;
      rates.set(one.subject, rate);
    }
    if (polled) weight = weight * kept + 1 - kept;
    after = page.newest;
    polled = now;
    const rows = [...rates].map(([subject, rate]) => ({ subject, msgs: rate.msgs / weight, bytes: rate.bytes / weight })).sort((one, other) => other.msgs - one.msgs).slice(0, KEPT);
    table.show(rows.slice(0, LISTED));
    tree.show(rows);
    const part = came > page.messages ? `; a sample of ${Math.round(100 / scale)} %` : "";
    write(note, `${count(rows.length)} subjects${part}`);
  });
  return {
    element: h("div", { class: "two" }, tableCard("Busiest subjects", table, filterField("Filter subjects", table)), treeCard),
    free: stop,
  };
}

/** Subjects by their tokens; a node shows what passes below it. */
class Tree {
  constructor() {
    this.element = h("div", { class: "tree" });
    this.nothing = h("p", { class: "empty" }, "No message in the last half minute.");
    this.nodes = new Map(); // by path
  }

  show(rows) {
    const root = { children: new Map(), msgs: 0 };
    for (const { subject, msgs } of rows) {
      let node = root;
      node.msgs += msgs;
      for (const token of subject.split(".")) {
        if (!node.children.has(token)) node.children.set(token, { children: new Map(), msgs: 0 });
        node = node.children.get(token);
        node.msgs += msgs;
      }
    }
    const used = new Set();
    this.fill(this.element, root, "", root.msgs, used, 0);
    for (const path of this.nodes.keys()) if (!used.has(path)) this.nodes.delete(path);
    if (!rows.length) this.element.replaceChildren(this.nothing);
  }

  fill(parent, node, path, all, used, depth) {
    const sorted = [...node.children].sort(([, one], [, other]) => other.msgs - one.msgs).slice(0, CHILDREN);
    const wanted = sorted.map(([token, child]) => {
      const at = `${path}${token}.`;
      used.add(at);
      const line = this.node(at, token, child.children.size > 0, depth);
      write(line.rate, `${short(child.msgs)}/s`);
      line.rect.setAttribute("width", String(all ? (100 * child.msgs) / all : 0));
      if (line.inner && (line.element.open || depth === 0)) this.fill(line.inner, child, at, all, used, depth + 1);
      return line.element;
    });
    const more = node.children.size - sorted.length;
    if (more > 0) wanted.push(h("div", { class: "leaf dim" }, h("span", {}, `and ${count(more)} more`)));
    if (wanted.length !== parent.children.length || wanted.some((one, at) => one !== parent.children[at])) {
      parent.replaceChildren(...wanted);
    }
  }

  node(path, token, hasChildren, depth) {
    let line = this.nodes.get(path);
    if (line && Boolean(line.inner) === hasChildren) return line;
    const rate = h("span", { class: "rate" });
    const rect = makeMeter();
    const cells = [h("span", { class: "name", title: path.slice(0, -1) }, token || "(empty)"), rect.meter, rate];
    const inner = hasChildren ? h("div") : null;
    const element = hasChildren ? h("details", { open: depth === 0 }, h("summary", {}, cells), inner) : h("div", { class: "leaf" }, cells);
    line = { element, inner, rate, rect: rect.rect };
    this.nodes.set(path, line);
    return line;
  }
}
