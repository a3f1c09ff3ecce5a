// Everything that can be done with a running broker, over every client and frame.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import * as seriatim from "seriatim";
import { ways } from "./opened.mjs";

const quick = { timeout: 60_000 };
const [netstring, header, none] = process.env.BROKER_URLS.split(",");
const opened = {
  "nats, netstring": () => ways.nats(netstring),
  "nats, header": () => ways.nats(header),
  "nats-io, netstring": () => ways["nats-io"](netstring),
  "nats-io, header": () => ways["nats-io"](header),
  connect: () => ways.connect(none),
};
let rooms = 0;

// Run a test with a client, and a subject that no other test has.
function withClient(name, run) {
  for (const [way, open] of Object.entries(opened)) {
    test(`${name} (${way})`, quick, async () => {
      const client = await open();
      try {
        rooms += 1;
        await run(client, `js.room${rooms}`, way);
      } finally {
        await client.close();
      }
    });
  }
}

async function take(reader, count = Infinity) {
  const found = [];
  for await (const item of reader) {
    found.push(item);
    if (found.length === count) break;
  }
  return found;
}

const texts = (messages) => messages.map((message) => message.text());
const numbers = (messages) => messages.map(({ number }) => number);
const subscriptions = ({ connection }) => connection.protocol.subscriptions.size();

withClient("publish returns numbers in the order of the calls", async (client, room) => {
  const sent = Array.from({ length: 2000 }, (_, at) => client.publish(`${room}.a`, String(at)));
  const given = await Promise.all(sent);
  assert.deepEqual(given, [...given].sort((a, b) => a - b));
  assert.equal(new Set(given).size, 2000);
  const found = await take(client.read(`${room}.>`, { start: given[0], until: given.at(-1) }));
  assert.deepEqual(numbers(found), given);
  assert.deepEqual(texts(found), Array.from({ length: 2000 }, (_, at) => String(at)));
});

withClient("an empty message, bytes, headers", async (client, room) => {
  const all = Uint8Array.from({ length: 256 }, (_, at) => at);
  const sent = client.publish(room, all, { headers: { one: "1", many: ["2", "3"] } });
  all.fill(0); // the caller may use it again
  const first = await sent;
  await client.publish(room);
  await client.publish(room, "x", { headers: new Map([["one", "ä"]]) });
  const found = await take(client.read(room, { start: first, until: "now" }));
  assert.deepEqual(Array.from(found[0].payload), Array.from({ length: 256 }, (_, at) => at));
  assert.deepEqual(found[0].headers.values("many"), ["2", "3"]);
  assert.equal(found[0].headers.get("one"), "1");
  assert.equal(found[1].payload.length, 0);
  assert.equal(found[2].headers.get("one"), "ä");
  assert.deepEqual([found[0].subject, found[0].reply], [room, ""]);
});

withClient("an id is published once", async (client, room) => {
  const number = await client.publish(room, "first", { id: room });
  assert.equal(await client.publish(room, "second", { id: room }), number);
  const headers = { "Nats-Msg-Id": room };
  assert.equal(await client.publish(room, "third", { headers }), number);
  assert.deepEqual(texts(await take(client.read(room, { until: "now" }))), ["first"]);
});

withClient("an expectation", async (client, room) => {
  const { last } = await client.info();
  const wrong = await client.publish(room, "", { expect: { last: last + 9 } }).catch((error) => error);
  assert.ok(wrong instanceof seriatim.WrongLastNumber, wrong);
  assert.deepEqual([wrong.last, wrong.subject], [last, room]);
  assert.equal(await client.publish(room, "", { expect: { last } }), last + 1);
});

withClient("what cannot be sent", async (client, room) => {
  const { InvalidArgument, MessageTooLarge, Refused } = seriatim;
  for (const subject of ["", "a b", "a\r\nPUB x 0", "x".repeat(3000), undefined]) {
    await assert.rejects(client.publish(subject, "x"), InvalidArgument);
    assert.throws(() => client.read(subject ?? ""), InvalidArgument);
  }
  await assert.rejects(client.publish(room, 5), InvalidArgument);
  await assert.rejects(client.publish(room, "", { headers: { "a b": "x" } }), InvalidArgument);
  await assert.rejects(client.publish(room, "", { headers: { a: "x\r\ny" } }), InvalidArgument);
  await assert.rejects(client.publish(room, "x".repeat(2 << 20)), MessageTooLarge);
  await assert.rejects(client.publish("a..b", "x"), (error) => {
    assert.ok(error instanceof Refused, error);
    assert.deepEqual([error.subject, error.status], ["a..b", 400]);
    return true;
  });
  for (const options of [
    { start: 0 },
    { start: 1, last: true },
    { until: 0.5 },
    { until: "then" },
    { last: true, until: 5 },
    { since: NaN },
    { losses: "ignore" },
    { orNow: true, start: 1 },
    { start: { journal: 5, number: 1 } },
  ]) {
    assert.throws(() => client.read(room, options), InvalidArgument, JSON.stringify(options));
  }
  await assert.rejects(client.get(0), InvalidArgument);
});

withClient("get, last, info", async (client, room) => {
  const number = await client.publish(`${room}.a`, "first", { headers: { a: "1" } });
  await client.publish(`${room}.a`, "second");
  const found = await client.get(number);
  assert.deepEqual([found.number, found.subject, found.text()], [number, `${room}.a`, "first"]);
  assert.equal(found.headers.get("a"), "1");
  assert.equal(found.headers.get("Nats-Sequence"), "");
  assert.match(found.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
  assert.equal((await client.last(`${room}.a`)).text(), "second");
  assert.equal(await client.last(`${room}.b`), null);
  await assert.rejects(client.get(number + 1000), seriatim.NotFound);
  await assert.rejects(client.last(`${room}.*`), (error) => error.status === 400);
  const info = await client.info();
  assert.match(info.journal, /^[0-9a-f]{16}$/);
  assert.ok(info.last >= number + 1);
});

withClient("the past, then live", async (client, room) => {
  const first = await client.publish(`${room}.a`, "0");
  for (let at = 1; at < 5; at += 1) client.publish(`${room}.a`, String(at));
  const reader = client.read(`${room}.*`, { start: first });
  const found = [];
  for await (const message of reader) {
    found.push(message.text());
    if (found.length >= 5 && found.length < 20) client.publish(`${room}.b`, String(found.length));
    if (found.length === 20) break;
  }
  assert.deepEqual(found, Array.from({ length: 20 }, (_, at) => String(at)));
});

withClient("since, last, now, and a position", async (client, room, way) => {
  const before = Date.now();
  await client.publish(`${room}.a`, "1");
  const second = await client.publish(`${room}.a`, "2");
  await client.publish(`${room}.b`, "3");
  assert.deepEqual(texts(await take(client.read(`${room}.*`, { since: before, until: "now" }))), [
    ...["1", "2", "3"],
  ]);
  const live = client.read(`${room}.*`, { since: new Date(before) });
  assert.deepEqual(texts(await take(live, 3)), ["1", "2", "3"]);
  assert.deepEqual(texts(await take(client.read(`${room}.*`, { last: true }), 2)), ["2", "3"]);
  const { journal } = await client.info();
  const behind = { journal, number: second };
  assert.deepEqual(texts(await take(client.read(`${room}.*`, { start: behind }), 1)), ["3"]);
  const reader = client.read(`${room}.*`, { start: second, until: second });
  const [message] = await take(reader);
  assert.deepEqual(
    reader.position,
    way === "connect" ? { ...behind, time: message.time } : behind,
  );
  const now = client.read(`${room}.*`, { orNow: true });
  const next = now.next();
  while (subscriptions(client) < 3) await client.info(); // answers to us, to publish, and it
  await client.publish(`${room}.a`, "4");
  assert.equal((await next).value.text(), "4");
  await now.return();
});

withClient("times are those of the frame stamp", async (client, room, way) => {
  const number = await client.publish(room, "x");
  const [message] = await take(client.read(room, { start: number, until: number }));
  const { time } = await client.get(number);
  assert.equal(message.time, way === "connect" ? time : "");
});

withClient("a position in two functions is saved behind each message", async (client, room) => {
  const sent = [];
  for (let at = 0; at < 4; at += 1) sent.push(await client.publish(room, String(at)));
  let kept;
  const saved = [];
  const position = {
    load: async () => kept,
    save: async (place) => {
      saved.push(place.number);
      kept = JSON.parse(JSON.stringify(place));
    },
  };
  const reader = client.read(room, { position });
  assert.deepEqual(texts(await take(reader, 2)), ["0", "1"]);
  assert.deepEqual(saved, [sent[0]], "a break does not say that the last one was processed");
  for await (const message of client.read(room, { position })) {
    assert.equal(message.text(), "1");
    await client.publish(room, "4");
    break;
  }
  const again = client.read(room, { position });
  assert.equal((await again.next()).value.text(), "1");
  await again.done();
  await again.return();
  assert.deepEqual(texts(await take(client.read(room, { position, until: "now" }))), ["2", "3", "4"]);
  assert.equal(kept.number, (await client.last(room)).number);
  const failing = { load: () => undefined, save: () => Promise.reject(new Error("no room")) };
  await assert.rejects(take(client.read(room, { position: failing })), /no room/);
});

withClient("a position in a file", async (client, room) => {
  const folder = mkdtempSync(join(tmpdir(), "seriatim-"));
  const file = join(folder, "position");
  try {
    for (let at = 0; at < 100; at += 1) client.publish(room, String(at));
    await client.publish(room, "100");
    const seen = [];
    for await (const message of client.read(room, { position: file })) {
      seen.push(message.text());
      if (seen.length === 50) break;
    }
    const { number } = JSON.parse(readFileSync(file, "utf8"));
    assert.equal((await client.get(number)).text(), "48", "49 was broken off");
    const rest = await take(client.read(room, { position: file, until: "now" }));
    assert.equal(rest[0].text(), "49");
    assert.equal(rest.at(-1).text(), "100");
    assert.deepEqual(await take(client.read(room, { position: file, until: "now" })), []);
    writeFileSync(file, "no position");
    await assert.rejects(take(client.read(room, { position: file })), /holds no position/);
    const nowhere = join(folder, "nowhere", "position");
    await assert.rejects(take(client.read(room, { position: nowhere })), { code: "ENOENT" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

withClient("every way out of a loop frees everything", async (client, room) => {
  for (let at = 0; at < 10; at += 1) await client.publish(room, String(at));
  await client.info();
  const atRest = subscriptions(client);
  for await (const message of client.read(room)) {
    assert.equal(subscriptions(client), atRest + 1);
    if (message.text() === "5") break;
  }
  assert.equal(subscriptions(client), atRest, "break");
  await assert.rejects(async () => {
    for await (const message of client.read(room)) throw new Error(message.text());
  }, /0/);
  assert.equal(subscriptions(client), atRest, "throw");
  assert.equal((await take(client.read(room, { until: "now" }))).length, 10);
  assert.equal(subscriptions(client), atRest, "the end");
  const reader = client.read(`${room}.nothing`);
  const waiting = reader.next();
  while (subscriptions(client) === atRest) await client.info();
  await reader.return();
  assert.deepEqual(await waiting, { value: undefined, done: true });
  assert.deepEqual(await reader.next(), { value: undefined, done: true });
  assert.equal(subscriptions(client), atRest, "return while it waits");
});

withClient("an AbortSignal ends the reading", async (client, room) => {
  await client.publish(room, "1");
  await client.info();
  const atRest = subscriptions(client);
  const control = new AbortController();
  const saved = [];
  const position = { load: () => null, save: ({ number }) => saved.push(number) };
  const reading = (async () => {
    for await (const message of client.read(room, { signal: control.signal, position })) {
      assert.equal(message.text(), "1");
    }
  })();
  while (saved.length === 0) await client.info(); // it waits for the next
  control.abort(new Error("enough"));
  await assert.rejects(reading, /enough/);
  assert.equal(subscriptions(client), atRest);
  await assert.rejects(take(client.read(room, { signal: control.signal })), /enough/);
  assert.equal(subscriptions(client), atRest);
});

withClient("closing ends readers, and fails what is in flight", async (client, room) => {
  await client.publish(room, "1");
  const reading = take(client.read(room));
  const waiting = client.read(`${room}.nothing`).next();
  await client.info();
  const sent = client.publish(room, "2", { id: `${room}-2` });
  const closing = client.close();
  await assert.rejects(sent, (error) => {
    assert.ok(error instanceof seriatim.Unconfirmed, error);
    assert.deepEqual([error.id, error.subject], [`${room}-2`, room]);
    return true;
  });
  await closing;
  await reading;
  assert.equal((await waiting).done, true);
  assert.ok(client.isClosed);
  await assert.rejects(client.publish(room, "3"), seriatim.BrokerError);
  await assert.rejects(client.read(room).next(), seriatim.ConnectionLost);
  await assert.rejects(client.info(), seriatim.ConnectionLost);
});

withClient("a client over a connection of the user leaves it open", async (client, room) => {
  const before = subscriptions(client);
  const second = new seriatim.Client(client.connection, { frame: "stamp" });
  const number = await second.publish(room, "1");
  const waiting = second.read(`${room}.nothing`).next();
  while (subscriptions(client) < before + 3) await second.info();
  await second.close();
  assert.equal((await waiting).done, true);
  assert.equal(subscriptions(client), before, "and frees what it had");
  assert.equal((await client.get(number)).text(), "1");
});

withClient("the end of the connection ends readers", async (client, room) => {
  await client.publish(room, "1");
  const reading = take(client.read(room));
  await client.info();
  await client.connection.close();
  await reading;
  await assert.rejects(client.publish(room, "3"), seriatim.BrokerError);
});

withClient("large messages that wait are bounded", async (client, room) => {
  const [count, large] = [40, new Uint8Array(1_000_000)];
  const first = await client.publish(room, large);
  for (let at = 1; at < 500; at += 1) client.publish(room, "small"); // asked for many at a time
  for (let at = 0; at < count; at += 1) await client.publish(room, large);
  const publisher = client.connection;
  const before = publisher.stats().inBytes;
  const reader = client.read(room, { start: first });
  await reader.next();
  for (let at = 0; at < 200; at += 1) await client.info();
  const waiting = publisher.stats().inBytes - before;
  assert.ok(waiting < 16 << 20, `${waiting} bytes have arrived, of ${count} MB`);
  let seen = 1;
  for await (const { payload } of reader) {
    seen += 1;
    assert.ok(payload.length === large.length || payload.length === 5);
    if (seen === 500 + count) break;
  }
});

withClient("more last messages than may wait", async (client, room) => {
  const [count, payload] = [2000, "x".repeat(4000)];
  for (let at = 0; at < count; at += 1) client.publish(`${room}.${at}`, `old${payload}`);
  for (let at = 0; at < count; at += 1) client.publish(`${room}.${at}`, `${at} ${payload}`);
  const last = await client.publish(`${room}.0`, `0 ${payload}`);
  const { inMsgs, outMsgs } = client.connection.stats();
  const reader = client.read(`${room}.*`, { last: true });
  const found = [(await reader.next()).value];
  while (client.connection.stats().inMsgs < inMsgs + count) await client.connection.flush();
  await client.publish(`${room}.live`, "1");
  await client.publish(`${room}.live`, "2");
  for await (const message of reader) {
    found.push(message);
    if (message.text() === "2") break;
  }
  assert.deepEqual(
    found.map(({ subject }) => subject.slice(room.length + 1)),
    [...Array.from({ length: count - 1 }, (_, at) => String(at + 1)), "0", "live", "live"],
  );
  assert.equal(found[count - 1].number, last);
  const fetched = client.connection.stats().outMsgs - outMsgs;
  assert.ok(fetched > count / 4, `${fetched} were fetched later, one by one`);
  assert.ok(found.slice(0, count).every((message) => !message.text().startsWith("old")));
});

test("a listener without numbers says what to do", quick, async () => {
  const client = await ways.nats(none);
  try {
    await assert.rejects(client.read("js.>").next(), (error) => {
      assert.ok(error instanceof seriatim.NotSeriatim, error);
      assert.match(error.message, /frame "none"/);
      return true;
    });
    assert.ok((await client.publish("js.none", "x")) > 0, "publishing needs no frame");
  } finally {
    await client.close();
  }
});
