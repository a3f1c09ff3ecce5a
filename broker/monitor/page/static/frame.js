// One message, taken apart: its frame byte by byte, its headers and its payload.

import { h } from "./dom.js";
import { bytes, count, plural } from "./text.js";

const DEPTH_MAX = 50;
const HEX_MAX = 512; // bytes shown in hexadecimal
const encode = (text) => new TextEncoder().encode(text);

export function decode64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** The text of bytes, or null if they are no text that can be shown. */
export function textOf(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/**
 * The parts of the frame `netstring`: <length>:<length>:<number>,<length>:<payload>,,
 * Each has a kind, what it is, and its bytes. The outer length counts all that is between its colon
 * and the last comma.
 */
export function partsOf(number, payload, size) {
  const digits = String(number);
  const inner = [
    ["length", "the length of the number", `${digits.length}`],
    ["mark", "a colon ends a length", ":"],
    ["number", "the number of the message", digits],
    ["mark", "a comma ends a netstring", ","],
    ["length", "the length of the payload", `${size}`],
    ["mark", "a colon ends a length", ":"],
    ["payload", "the payload", payload],
    ["mark", "a comma ends a netstring", ","],
  ].map(([kind, about, content]) => ({ kind, about, data: typeof content === "string" ? encode(content) : content }));
  const length = inner.reduce((sum, part) => sum + part.data.length, 0) + size - payload.length;
  return [
    { kind: "length", about: "the length of all that follows, up to the last comma", data: encode(String(length)) },
    { kind: "mark", about: "a colon ends a length", data: encode(":") },
    ...inner,
    { kind: "mark", about: "the last comma", data: encode(",") },
  ];
}

/** A card that shows a message. */
export function showMessage(card, message) {
  const payload = decode64(message.payload);
  const headers = textOf(decode64(message.headers)) ?? "";
  const isCut = payload.length < message.size;
  const parts = message.number ? partsOf(message.number, payload, message.size) : [];
  const text = textOf(payload);
  const title = message.number ? `Message ${count(message.number)}` : "A message without a number";
  card.hidden = false;
  card.replaceChildren(...[
    h("h2", {}, title, h("span", { class: "dim mono" }, message.subject)),
    h("p", { class: "dim" }, [message.time, bytes(message.size), message.reply && `reply to ${message.reply}`].filter(Boolean).join("  \u00b7  ")),
    message.number ? frameOf(parts, isCut) : "",
    headers.trim() ? [h("h3", {}, "Headers"), h("pre", { class: "payload" }, headers.trim())] : [],
    h("h3", {}, text === null ? "Payload: not text; its bytes are above" : `Payload${isCut ? `, the first ${bytes(payload.length)}` : ""}`),
    text === null ? "" : h("pre", { class: "payload", id: "payload" }, pretty(text)),
  ].flat());
}

function frameOf(parts, isCut) {
  const line = h("div", { class: "frame", id: "frame" }, parts.map((part) =>
    h("span", { class: `part-${part.kind}`, title: `${part.about}: ${plural(part.data.length, "byte")}` }, visible(part.data.slice(0, 2000)))));
  return [
    h("h3", {}, "Its frame, as a subscriber gets it (netstring)"),
    line,
    h("div", { class: "keys" }, [["length", "lengths"], ["number", "the number"], ["payload", "the payload"], ["mark", "separators"]].map(([kind, name]) => h("span", { class: `part-${kind}` }, name)),
      h("span", { class: "dim" }, isCut ? "the payload is cut here" : plural(parts.reduce((sum, part) => sum + part.data.length, 0), "byte"))),
    hexOf(parts),
  ];
}

/** Bytes as characters; those that cannot be shown are middle dots. */
function visible(data) {
  return textOf(data) ?? [...data].map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "\u00b7")).join("");
}

function hexOf(parts) {
  const cells = parts.flatMap((part) => [...part.data.slice(0, HEX_MAX)].map((byte) => ({ byte, part }))).slice(0, HEX_MAX);
  const rows = [];
  for (let at = 0; at < cells.length; at += 16) {
    const row = cells.slice(at, at + 16);
    rows.push(h("tr", {},
      h("td", {}, at.toString(16).padStart(4, "0")),
      row.map(({ byte, part }) => h("td", { class: `part-${part.kind}`, title: part.about }, byte.toString(16).padStart(2, "0"))),
      row.length < 16 ? h("td", { colspan: 16 - row.length }) : "",
      h("td", { class: "text" }, row.map(({ byte, part }) => h("span", { class: `part-${part.kind}` }, byte > 31 && byte < 127 ? String.fromCharCode(byte) : "\u00b7")))));
  }
  return h("details", { open: true }, h("summary", {}, "byte by byte"), h("div", { class: "hexes" }, h("table", { class: "hex" }, h("tbody", {}, rows))));
}

/** JSON is indented; all else stays as it is, and what is nested so deeply that it would explode. */
function pretty(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 100_000 || depthOf(text) > DEPTH_MAX) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** How deeply brackets are nested, those within strings included. */
function depthOf(text) {
  let depth = 0;
  let most = 0;
  for (const char of text) {
    if (char === "[" || char === "{") most = Math.max(most, ++depth);
    else if (char === "]" || char === "}") depth--;
  }
  return most;
}
