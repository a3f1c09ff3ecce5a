// What an application does in a browser. It asks this page's server what to do, and tells it how
// it went: `scenario` is a function of this file, `options` are those of `connect`.
import { connect, createInbox, headers, nkeyAuthenticator } from "./nats.js";

const text = new TextDecoder();

function check(is, what) {
  if (!is) throw new Error(what);
}

function same(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

// Bytes that differ from message to message.
function bytes(size, seed) {
  return Uint8Array.from({ length: size }, (_, at) => (at * 31 + seed * 7 + (at >> 8)) & 0xff);
}

async function take(subscription, count) {
  const got = [];
  for await (const message of subscription) {
    got.push(message);
    if (got.length === count) break;
  }
  return got;
}

const scenarios = {
  async everything(client) {
    const subscription = client.subscribe("browser.flood");
    await client.flush();
    const sent = [];
    for (let at = 0; at < 2000; at += 1) sent.push(bytes((at * 37) % 5000, at));
    sent.push(bytes(1 << 20, 1), bytes(0, 0), bytes((1 << 20) - 1, 2));
    for (const one of sent) client.publish("browser.flood", one);
    const got = await take(subscription, sent.length);
    check(got.every((message, at) => same(message.data, sent[at])), "a message differs");

    const service = client.subscribe("browser.service", {
      callback: (_, message) => message.respond(`${text.decode(message.data)}!`),
    });
    const answer = await client.request("browser.service", "hello", { timeout: 30_000 });
    check(text.decode(answer.data) === "hello!", "the answer differs");
    service.unsubscribe();

    const given = headers();
    given.set("Kind", "browser");
    const headed = client.subscribe("browser.headers");
    client.publish("browser.headers", "x", { headers: given });
    const [message] = await take(headed, 1);
    check(message.headers.get("Kind") === "browser", "the header differs");

    const nobody = await client.request("browser.nobody", "x").catch((error) => error.code);
    check(nobody === "503", `no responders: ${nobody}`);
    const inbox = createInbox();
    const numbered = client.subscribe(inbox, { max: 1 });
    client.publish("$SEQ.PUB.browser.numbered", "x", { reply: inbox });
    const [number] = await take(numbered, 1);
    check(/^\d+:\d+,$/.test(text.decode(number.data)), "the number");
    return "ok";
  },

  // The client may not publish to `secret`.
  async refused(client) {
    const told = (async () => {
      for await (const status of client.status()) {
        if (status.type === "error") return `${status.data} ${status.permissionContext?.subject}`;
      }
    })();
    client.publish("secret", "x");
    const said = await told;
    const allowed = client.subscribe("allowed");
    client.publish("allowed", "y");
    const [message] = await take(allowed, 1);
    check(text.decode(message.data) === "y", "what is allowed");
    return said;
  },
};

async function run() {
  const { scenario, options, seed } = await (await fetch("task")).json();
  const own = seed ? { authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)) } : {};
  const client = await connect({ timeout: 30_000, reconnect: false, ...options, ...own });
  try {
    return await scenarios[scenario](client);
  } finally {
    await client.close();
  }
}

const result = await run().catch((error) => `${error.name}: ${error.message}`);
await fetch("done", { method: "POST", body: result });
