// The broker as a test sees it: where it is, and how to read the payloads of its frame mode.
import assert from "node:assert/strict";
import { connect } from "nats";

export const url = process.env.BROKER_URL;
export const frame = process.env.BROKER_FRAME;
export const numbered = process.env.BROKER_NUMBERED === "1";

assert.ok(url, "BROKER_URL names the broker");
assert.ok(["none", "netstring"].includes(frame), "BROKER_FRAME is none or netstring");

const text = new TextDecoder();

// One netstring at `at`: [content, where the next begins].
function netstring(data, at) {
  const colon = data.indexOf(0x3a, at);
  const size = text.decode(data.subarray(at, colon));
  assert.match(size, /^(0|[1-9][0-9]*)$/);
  const end = colon + 1 + Number(size);
  assert.equal(data[end], 0x2c, "a netstring ends with a comma");
  return [data.subarray(colon + 1, end), end + 1];
}

// L:<n>:<number>,<m>:<payload>,,
export function splitFrame(data) {
  const [inner, end] = netstring(data, 0);
  assert.equal(end, data.length, "nothing after the frame");
  const [number, at] = netstring(inner, 0);
  const [payload, last] = netstring(inner, at);
  assert.equal(last, inner.length, "nothing after the payload");
  return { number: Number(text.decode(number)), payload };
}

// The bytes the publisher sent, and as text. Answers have no frame.
export const bytes = (message) =>
  frame === "netstring" && !message.subject.startsWith("_INBOX.")
    ? splitFrame(message.data).payload
    : message.data;
export const said = (message) => text.decode(bytes(message));
// The same of an answer that repeats what a subscriber would get, with its frame.
export const repeated = ({ data }) =>
  text.decode(frame === "netstring" ? splitFrame(data).payload : data);

// Run a test with so many connected clients; all are closed at its end.
export async function withClients(count, options, test) {
  const clients = [];
  try {
    for (let at = 0; at < count; at += 1) {
      clients.push(await connect({ servers: url, ...options }));
    }
    await test(...clients);
  } finally {
    await Promise.all(clients.map((client) => client.close()));
  }
}

// The next `count` messages of a subscription.
export async function take(subscription, count) {
  const got = [];
  if (count === 0) return got;
  for await (const message of subscription) {
    got.push(message);
    if (got.length === count) break;
  }
  return got;
}
