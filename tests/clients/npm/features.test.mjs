// What an application does all day with the npm client, in the broker's frame mode.
import assert from "node:assert/strict";
import test from "node:test";
import { connect, createInbox, Empty, ErrorCode, headers } from "nats";
import {
  bytes,
  frame,
  numbered,
  repeated,
  said,
  splitFrame,
  take,
  url,
  withClients,
} from "./served.mjs";

const quick = { timeout: 60_000 };
// The client gives up after one second by default: a busy machine may need longer.
const patient = { timeout: 30_000 };

test("publish and subscribe", quick, () =>
  withClients(2, {}, async (publisher, subscriber) => {
    const subscription = subscriber.subscribe("js.plain");
    await subscriber.flush();
    const all = Uint8Array.from({ length: 256 }, (_, at) => at);
    for (const data of ["hello", Empty, "\r\n", all]) publisher.publish("js.plain", data);
    const got = await take(subscription, 4);
    assert.deepEqual(got.slice(0, 3).map(said), ["hello", "", "\r\n"]);
    assert.deepEqual(Uint8Array.from(bytes(got[3])), all);
    assert.deepEqual(new Set(got.map((message) => message.subject)), new Set(["js.plain"]));
  }));

test("wildcards", quick, () =>
  withClients(1, {}, async (client) => {
    const got = {};
    for (const pattern of ["js.wild.*", "js.wild.>", "js.*.a", "js.wild.a.*"]) {
      got[pattern] = [];
      client.subscribe(pattern, { callback: (_, message) => got[pattern].push(said(message)) });
    }
    for (const subject of ["js.wild.a", "js.wild.b", "js.wild.a.b", "js.other.a", "js.wild"]) {
      client.publish(subject, subject);
    }
    await client.flush();
    assert.deepEqual(got, {
      "js.wild.*": ["js.wild.a", "js.wild.b"],
      "js.wild.>": ["js.wild.a", "js.wild.b", "js.wild.a.b"],
      "js.*.a": ["js.wild.a", "js.other.a"],
      "js.wild.a.*": ["js.wild.a.b"],
    });
  }));

test("queue groups: once per group, and all members work", quick, () =>
  withClients(3, {}, async (one, two, publisher) => {
    const count = 300;
    const groups = { red: [one, one, two], blue: [two, one] };
    const shares = {};
    for (const [queue, clients] of Object.entries(groups)) {
      shares[queue] = clients.map((client) => {
        const share = [];
        client.subscribe("js.queue", {
          queue,
          callback: (_, message) => share.push(Number(said(message))),
        });
        return share;
      });
    }
    await Promise.all([one.flush(), two.flush()]);
    for (let at = 0; at < count; at += 1) publisher.publish("js.queue", String(at));
    await publisher.flush();
    await Promise.all([one.flush(), two.flush()]);
    for (const group of Object.values(shares)) {
      assert.ok(group.every((share) => share.length > 0), "every member gets some");
      assert.deepEqual(
        group.flat().sort((a, b) => a - b),
        Array.from({ length: count }, (_, at) => at),
      );
    }
  }));

test("request and reply, one after the other and many at once", quick, () =>
  withClients(2, {}, async (server, asker) => {
    server.subscribe("js.ask", {
      callback: (_, message) => message.respond(said(message).toUpperCase()),
    });
    await server.flush();
    assert.equal(said(await asker.request("js.ask", "hello", patient)), "HELLO");
    const asked = Array.from({ length: 50 }, (_, n) => asker.request("js.ask", `n${n}`, patient));
    const answers = (await Promise.all(asked)).map(said);
    assert.deepEqual(answers, Array.from({ length: 50 }, (_, n) => `N${n}`));
    const own = await asker.request("js.ask", "own", {
      ...patient,
      noMux: true,
      reply: createInbox(),
    });
    assert.equal(said(own), "OWN");
  }));

test("nobody answers: no responders, at once", quick, () =>
  withClients(1, {}, async (client) => {
    await assert.rejects(client.request("js.nobody", "hello?", patient), {
      code: ErrorCode.NoResponders,
    });
  }));

test("headers pass unchanged", quick, () =>
  withClients(1, {}, async (client) => {
    const subscription = client.subscribe("js.headers");
    const sent = headers();
    sent.append("Color", "red");
    sent.append("Color", "blue");
    sent.set("Trace", "a:b:c");
    client.publish("js.headers", "body", { headers: sent });
    client.publish("js.headers", Empty, { headers: sent });
    client.publish("js.headers", "none");
    const [full, empty, none] = await take(subscription, 3);
    for (const message of [full, empty]) {
      assert.deepEqual(message.headers.values("Color"), ["red", "blue"]);
      assert.equal(message.headers.get("Trace"), "a:b:c");
    }
    assert.deepEqual([full, empty, none].map(said), ["body", "", "none"]);
    assert.equal(none.headers, undefined);
  }));

test("auto-unsubscribe", quick, () =>
  withClients(1, {}, async (client) => {
    const got = [];
    const witness = client.subscribe("js.max");
    const limited = client.subscribe("js.max", { max: 3 });
    const ended = (async () => {
      for await (const message of limited) got.push(said(message));
    })();
    for (let at = 0; at < 6; at += 1) client.publish("js.max", String(at));
    await ended;
    assert.deepEqual(got, ["0", "1", "2"]);
    assert.equal((await take(witness, 6)).length, 6);
  }));

test("unsubscribe", quick, () =>
  withClients(1, {}, async (client) => {
    const got = [];
    const gone = client.subscribe("js.unsub", { callback: (_, m) => got.push(said(m)) });
    client.publish("js.unsub", "1");
    await client.flush();
    gone.unsubscribe();
    client.publish("js.unsub", "2");
    await client.flush();
    assert.deepEqual(got, ["1"]);
  }));

test("no echo", quick, () =>
  withClients(1, { noEcho: true }, async (deaf) => {
    let heard = 0;
    deaf.subscribe("js.echo", { callback: () => (heard += 1) });
    deaf.publish("js.echo", "mine");
    await deaf.flush();
    assert.equal(heard, 0);
  }));

for (const options of [{ verbose: true }, { pedantic: true }]) {
  test(`works alike with ${JSON.stringify(options)}`, quick, () =>
    withClients(1, options, async (client) => {
      const subscription = client.subscribe("js.loud.>");
      client.publish("js.loud.a", "1");
      const [message] = await take(subscription, 1);
      assert.equal(said(message), "1");
    }));
}

test("drain handles what was sent before it closes", quick, () =>
  withClients(1, {}, async (publisher) => {
    const draining = await connect({ servers: url });
    const got = [];
    draining.subscribe("js.drain", { callback: (_, m) => got.push(Number(said(m))) });
    await draining.flush();
    for (let at = 0; at < 500; at += 1) publisher.publish("js.drain", String(at));
    await publisher.flush();
    await draining.drain();
    assert.deepEqual(got, Array.from({ length: 500 }, (_, at) => at));
    assert.ok(draining.isClosed());
  }));

test("payloads up to the limit, and not over it", quick, () =>
  withClients(1, {}, async (client) => {
    const most = client.info.max_payload;
    assert.equal(most, 1 << 20);
    const subscription = client.subscribe("js.big");
    const data = new Uint8Array(most).map((_, at) => at % 251);
    client.publish("js.big", data);
    const [message] = await take(subscription, 1);
    assert.ok(Buffer.from(bytes(message)).equals(Buffer.from(data)));
    assert.throws(() => client.publish("js.big", new Uint8Array(most + 1)), {
      code: ErrorCode.MaxPayloadExceeded,
    });
  }));

test("many subscriptions", quick, () =>
  withClients(2, {}, async (client, publisher) => {
    const count = 2000;
    const got = new Map();
    for (let at = 0; at < count; at += 1) {
      client.subscribe(`js.many.${at}`, {
        callback: (_, message) => got.set(message.subject, said(message)),
      });
    }
    await client.flush();
    for (let at = 0; at < count; at += 1) publisher.publish(`js.many.${at}`, String(at));
    await publisher.flush();
    await client.flush();
    assert.equal(got.size, count);
    for (const [subject, text] of got) assert.equal(subject, `js.many.${text}`);
  }));

test("flush and rtt", quick, () =>
  withClients(1, {}, async (client) => {
    await client.flush();
    assert.ok((await client.rtt()) >= 0);
  }));

test("a refused publish is told, and the connection lives", quick, () =>
  withClients(1, {}, async (client) => {
    const told = (async () => {
      for await (const status of client.status()) if (status.type === "error") return status;
    })();
    client.publish("_GR_.x", "x");
    const status = await told;
    assert.equal(status.data, ErrorCode.PermissionsViolation);
    await client.flush();
  }));

test("numbers: $SEQ.PUB answers the number, frames carry it", { skip: !numbered }, () =>
  withClients(1, {}, async (client) => {
    const number = (answer) => Number(/^[0-9]+:([0-9]+),$/.exec(new TextDecoder().decode(answer.data))[1]);
    const subscription = client.subscribe("js.orders");
    const first = number(await client.request("$SEQ.PUB.js.orders", "one", patient));
    const second = number(await client.request("$SEQ.PUB.js.orders", "two", patient));
    const current = number(await client.request("$SEQ.PUB.js.orders", Empty, patient));
    assert.deepEqual([second, current], [first + 1, first + 1]);
    const got = await take(subscription, 2);
    assert.deepEqual(got.map(said), ["one", "two"]);
    if (frame === "netstring") {
      assert.deepEqual(got.map((m) => splitFrame(m.data).number), [first, second]);
    }
  }));

test("the past: replayed, and then live", { ...quick, skip: !numbered }, () =>
  withClients(1, {}, async (client) => {
    for (let at = 0; at < 10; at += 1) client.publish(`js.past.${at % 2}`, String(at));
    await client.flush();
    const subscription = client.subscribe("$SEQ.FROM.1.js.past.*");
    const past = await take(subscription, 10);
    assert.deepEqual(past.map(said).map(Number), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual(new Set(past.map((one) => one.subject)), new Set(["js.past.0", "js.past.1"]));
    const last = client.subscribe("$SEQ.LAST.js.past.*");
    assert.deepEqual((await take(last, 2)).map(said), ["8", "9"]);
    const live = client.subscribe("$SEQ.FROM.1.js.past.1", { max: 6 });
    client.publish("js.past.1", "11");
    assert.deepEqual((await take(live, 6)).map(said), ["1", "3", "5", "7", "9", "11"]);
  }));

test("the past: questions are answered", { ...quick, skip: !numbered }, () =>
  withClients(1, {}, async (client) => {
    const message = headers();
    message.set("Nats-Msg-Id", `js-past-${frame}`);
    const once = { ...patient, headers: message };
    const first = await client.request("$SEQ.PUB.js.once", "only", once);
    const again = await client.request("$SEQ.PUB.js.once", "only", once);
    assert.deepEqual(again.data, first.data);
    const info = (await client.request("$SEQ.INFO", Empty, patient)).json();
    assert.equal(info.store, "disk");
    const answer = await client.request(`$SEQ.GET.${info.last}`, Empty, patient);
    assert.equal(repeated(answer), "only");
    assert.equal(answer.headers.get("Nats-Subject"), "js.once");
    const missing = await client.request(`$SEQ.GET.${info.last + 9}`, Empty, patient);
    assert.equal(missing.headers.code, 404);
  }));

test("the version: nothing is taken to be missing; JetStream is refused at once", quick, () =>
  withClients(1, {}, async (client) => {
    const [major, minor] = client.info.version.split(".").map(Number);
    assert.ok(major === 2 && minor >= 15, client.info.version);
    const refused = (error) => error.code === ErrorCode.NoResponders || error.code === "503";
    const jetstream = client.jetstream(patient);
    await assert.rejects(client.jetstreamManager(patient), refused);
    await assert.rejects(jetstream.publish("js.js", Empty, patient), refused);
    await assert.rejects(jetstream.views.kv("bucket"), refused);
    await assert.rejects(jetstream.pull("stream", "durable", patient), refused);
  }));
