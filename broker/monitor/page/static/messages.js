// Messages: a number, a subject or a time is looked up in the journal; new ones come in as they are
// published. The broker judges what the viewer may read.

import { ask, h, write } from "./dom.js";
import { decode64, showMessage, textOf } from "./frame.js";
import { Table, tableCard } from "./tables.js";
import { bytes, count, plural } from "./text.js";

const SHOWN = 300;

let login = null; // kept while the page is open, never stored
let state = { asked: "", subject: ">" }; // of the last visit to this view

export function messages({ feed, ask: find }) {
  const element = h("div", { class: "stack" });
  const allowed = feed.varz?.messages ?? { are_shown: false, login: false };
  if (find) state.asked = find;
  if (!allowed.are_shown) {
    element.append(h("section", { class: "card" }, h("h2", {}, "Messages are not shown"),
      h("p", { class: "dim" }, "Start the broker with --http_messages to find messages here by number, subject or time, and to follow new ones. A viewer sees only what it may subscribe to.")));
    return { element, free() {} };
  }
  if (allowed.login && !login) {
    element.append(loginCard((given) => {
      login = given;
      element.replaceChildren();
      view = reader(element);
    }));
    let view = null;
    return { element, free: () => view?.free() };
  }
  return reader(element);
}

function loginCard(enter) {
  const user = h("input", { name: "user", placeholder: "user", autocomplete: "username", "aria-label": "user" });
  const password = h("input", { name: "password", type: "password", placeholder: "password, or token", autocomplete: "current-password", "aria-label": "password, or token" });
  const submit = (event) => {
    event.preventDefault();
    enter([user.value, password.value]);
  };
  return h("section", { class: "card" }, h("h2", {}, "Log in"),
    h("p", { class: "dim" }, "Log in as a user of the broker, to see the messages that this user may subscribe to. With a token, leave the user empty."),
    h("form", { class: "bar", submit }, user, password, h("button", {}, "Log in")));
}

function reader(element) {
  const detail = h("section", { class: "card detail", hidden: true });
  const note = h("span", { class: "dim", id: "found", role: "status" });
  const table = new Table([
    { key: "number", label: "number", num: true, text: (row) => (row.number ? count(row.number) : "none") },
    { key: "time", label: "time", text: (row) => row.time.replace("T", " ").replace(/(\.\d{3})\d*Z/, "$1 Z") },
    { key: "subject", label: "subject", clip: true, mono: true },
    { key: "size", label: "size", num: true, text: (row) => bytes(row.size) },
    { key: "text", label: "payload", clip: true, mono: true },
  ], { key: (row) => row.number || `unnumbered ${row.at}`, sort: "number", chosen: (row) => showMessage(detail, row), empty: "No message." });
  const asked = h("input", { class: "wide", type: "search", value: state.asked, "data-search": true, "aria-label": "number, subject or time",
    placeholder: "88485, orders.>, 15m, or a time", title: "a number, a subject, how long ago (15m), or a time (2026-01-31T12:00:00Z)" });
  const subject = h("input", { value: state.subject, "aria-label": "subjects to search", title: "only messages to these subjects; * and > are wildcards", size: 14 });
  const follow = h("button", { type: "button", "aria-pressed": "false", click: () => (tailing ? stop() : tail()) }, "Follow");
  let tailing = null;
  let searching = null;
  let arrived = 0; // counts messages: some have no number

  const submit = async (event) => {
    event?.preventDefault();
    stop();
    state = { asked: asked.value.trim(), subject: subject.value.trim() || ">" };
    searching?.abort();
    const mine = (searching = new AbortController());
    write(note, "searching");
    try {
      const page = await ask(`messages?${queryOf(state)}`, { signal: mine.signal, headers: headers() });
      page.messages.forEach((one) => (one.at = ++arrived));
      show(page.messages);
      write(note, summary(page));
      if (page.messages.length && /^[\d, ]+$/.test(state.asked)) table.choose(page.messages[0].number);
    } catch (error) {
      if (error.name !== "AbortError") refused(error.message);
    }
  };

  function show(found) {
    table.show(found.map((one) => ({ ...one, text: preview(one) })));
  }

  function refused(why) {
    show([]);
    write(note, why);
    if (/Authorization|Authentication/i.test(why)) login = null;
  }

  async function tail() {
    const mine = (tailing = new AbortController());
    follow.setAttribute("aria-pressed", "true");
    state = { asked: asked.value.trim(), subject: subject.value.trim() || ">" };
    write(note, "waiting for new messages");
    let rows = [];
    try {
      const answer = await fetch(`messages/tail?subject=${encodeURIComponent(state.subject)}`, { signal: mine.signal, headers: headers(), cache: "no-store" });
      if (!answer.ok) throw new Error((await answer.json()).error);
      for await (const { name, content } of events(answer.body)) {
        if (name === "refused") throw new Error(content.error);
        if (name !== "messages" || !content.messages.length) continue;
        content.messages.forEach((one) => (one.at = ++arrived));
        rows = [...content.messages.reverse(), ...rows].slice(0, SHOWN);
        show(rows);
        const full = content.messages.length >= 50 ? "; showing 50 a second, more are published" : "";
        write(note, `following ${state.subject}${full}`);
      }
      throw new Error("the broker has stopped sending");
    } catch (error) {
      if (error.name !== "AbortError" && tailing === mine) write(note, error.message);
    }
    if (tailing === mine) stop();
  }

  function stop() {
    tailing?.abort();
    tailing = null;
    follow.setAttribute("aria-pressed", "false");
  }

  const form = h("form", { class: "bar", submit }, asked, h("label", { class: "dim" }, "in ", subject), h("button", { id: "search" }, "Find"), follow);
  const card = tableCard("Messages", table);
  card.querySelector("h2").append(note);
  card.querySelector("h2").after(form);
  card.querySelector(".scroll").classList.add("tall");
  element.append(h("div", { class: "beside" }, card, detail));
  submit();
  return {
    element,
    free() {
      stop();
      searching?.abort();
    },
  };
}

/** What was typed, as a query: a number, a time, a subject, or nothing for the newest. */
function queryOf({ asked, subject }) {
  const query = new URLSearchParams({ subject });
  if (/^[\d, ]+$/.test(asked)) query.set("from", asked.replace(/[, ]/g, ""));
  else if (/^\d+[smhd]$/.test(asked) || /^\d{4}-\d\d-\d\d/.test(asked)) query.set("since", asked);
  else if (asked) {
    query.set("subject", asked);
    query.set("from", "1");
  }
  return query;
}

function summary(page) {
  const lost = page.lost.map(([first, last]) => (first === last ? count(first) : `${count(first)} to ${count(last)}`)).join(", ");
  return [
    page.messages.length ? plural(page.messages.length, "message") : "nothing found",
    page.begin > page.newest ? `the last number is ${count(page.newest)}` : "",
    lost && `no longer there: ${lost}`,
    page.is_whole ? "" : "the search took too long and was cut short",
  ].filter(Boolean).join("; ");
}

function headers() {
  const all = { "X-Seriatim-Page": "1" };
  if (login) all["X-Seriatim-Login"] = btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(login))));
  return all;
}

function preview(message) {
  const data = decode64(message.payload).slice(0, 200);
  return textOf(data) ?? [...data.slice(0, 24)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** Server-sent events of a body, as { name, content }. */
async function* events(body) {
  const pieces = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await pieces.read();
    if (done) return;
    text += value;
    const whole = text.split("\n\n");
    text = whole.pop();
    for (const one of whole) {
      const name = /^event: (.*)$/m.exec(one)?.[1] ?? "";
      const data = /^data: (.*)$/m.exec(one)?.[1];
      if (data) yield { name, content: JSON.parse(data) };
    }
  }
}
