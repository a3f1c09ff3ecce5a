// Every call that two generations of the npm client have, with what each came to.
//
//   node calls.mjs nats|@nats-io 127.0.0.1:4222
//
// `nats` is the older package; the newer is @nats-io/jetstream with @nats-io/transport-node.
import { Outcomes } from "./outcomes.mjs";

const [, , which, url] = process.argv;
const isOld = which === "nats";
const core = await import(isOld ? "nats" : "@nats-io/transport-node");
const stream = isOld ? core : await import("@nats-io/jetstream");
const { connect, headers, nanos } = core;
const { AckPolicy, DeliverPolicy, ReplayPolicy, RetentionPolicy } = stream;
const PATIENCE_MS = 20000;
const outcomes = new Outcomes();
const of = (name, call) => outcomes.of(name, call);

async function withClient(section) {
  const client = await connect({ servers: url.replace("nats://", ""), timeout: PATIENCE_MS });
  const options = { timeout: PATIENCE_MS };
  const js = isOld ? client.jetstream(options) : stream.jetstream(client, options);
  const jsm = isOld
    ? await client.jetstreamManager(options)
    : await stream.jetstreamManager(client, options);
  outcomes.begin(section.name);
  const publish = async (subject, data, more) => {
    client.publish("noise", "noise");
    return outcomes.published((await js.publish(subject, data, more)).seq);
  };
  const fill = async (prefix, count) => {
    const numbers = [];
    for (let at = 0; at < count; at += 1) numbers.push(await publish(`${prefix}.${at % 3}`, `m${at}`));
    return numbers;
  };
  await section({ client, js, jsm, publish, fill });
  await client.close();
}

const all = async (iterator) => {
  const found = [];
  for await (const one of iterator) found.push(one);
  return found;
};
const said = (one) =>
  one && {
    subject: one.subject,
    data: one.string(),
    headers: Object.fromEntries([...(one.headers ?? one.header ?? [])].map(([k, v]) => [k, `${v}`])),
    seq: one.seq,
  };
const got = (one) => {
  const { stream, consumer, deliveryCount, streamSequence, deliverySequence, pending } = one.info;
  const about = { stream, consumer, deliveryCount, streamSequence, deliverySequence, pending };
  return { ...said(one), about, redelivered: one.redelivered };
};
// End a consumption; the older package never returns from `close` once its iterator has ended.
const leave = (messages) => (isOld ? messages.stop() : messages.close());
// The next so many messages of an iterator, which then ends.
const take = async (messages, count) => {
  const found = [];
  for await (const one of messages) {
    found.push(one);
    if (found.length === count) break;
  }
  return found;
};
const expecting = (name, value) => {
  const found = headers();
  found.set(name, value);
  return { headers: found };
};

async function streams({ js, jsm, publish, fill }) {
  const config = { name: "A", subjects: ["a.>"], description: "first", allow_direct: true };
  await of("add", () => jsm.streams.add(config));
  await of("add again", () => jsm.streams.add(config));
  await of("add another", () => jsm.streams.add({ name: "A", subjects: ["a.b"] }));
  await of("overlapping", () => jsm.streams.add({ name: "B", subjects: ["a.b"] }));
  await of("with options", () => jsm.streams.add({ name: "B", subjects: ["b"], max_consumers: 3 }));
  await of("update", () => jsm.streams.update("A", { subjects: ["a.>", "aa"] }));
  await of("update none", () => jsm.streams.update("NONE", { subjects: ["n"] }));
  const first = await publish("a.h", "", expecting("A", "b"));
  await publish("a.h", "once", { msgID: "1" });
  await of("duplicate", () => js.publish("a.h", "once", { msgID: "1" }));
  await of("stream", () => js.publish("a.h", "", { expect: { streamName: "ELSE" } }));
  await of("last", () => js.publish("a.h", "", { expect: { lastSequence: first } }));
  const wrong = { expect: { lastSubjectSequence: first } };
  await of("last of subject", () => js.publish("a.h", "", wrong));
  await of("last id", () => js.publish("a.h", "", { expect: { lastMsgID: "9" } }));
  await of("no stream", () => js.publish("nowhere", "", { retries: 1 }));
  if (!isOld) {
    await of("other subject", () =>
      js.publish("a.k", "", {
        expect: { lastSubjectSequence: first, lastSubjectSequenceSubject: "a.h" },
      }),
    );
  }
  const numbers = await fill("a", 6);
  await of("info", () => jsm.streams.info("A", { subjects_filter: ">", deleted_details: true }));
  await of("info of none", () => jsm.streams.info("NONE"));
  await of("names", () => all(jsm.streams.names()));
  await of("names of a subject", () => all(jsm.streams.names("a.x")));
  await of("list", () => all(jsm.streams.list()));
  await of("find", () => jsm.streams.find("a.x"));
  await of("find none", () => jsm.streams.find("nowhere"));
  const one = await jsm.streams.get("A");
  await of("stream's info", () => one.info());
  await of("alternates", () => one.alternates());
  await of("best", async () => (await one.best()).name);
  for (const api of [jsm.streams, jsm.direct]) {
    for (const query of [
      { seq: numbers[0] },
      { last_by_subj: "a.h" },
      { last_by_subj: "a.none" },
      { seq: numbers[0], next_by_subj: "a.2" },
      { start_time: new Date(0) },
      { seq: 2 ** 40 },
    ]) {
      const name = `message ${Object.keys(query)}`;
      await of(name, async () => said(await api.getMessage("A", query)));
    }
  }
  await of("get", async () => said(await one.getMessage({ seq: numbers[1] })));
  const batches = [
    { seq: first, batch: 4 },
    { seq: numbers[1], batch: 3, next_by_subj: "a.*" },
    { start_time: new Date(0), batch: 2 },
    { seq: first, max_bytes: 100, batch: 9 },
    { seq: 2 ** 40, batch: 5 },
  ];
  for (const [at, query] of batches.entries()) {
    await of(`batch ${at}`, async () => (await all(await jsm.direct.getBatch("A", query))).map(said));
  }
  const lasts = [
    { multi_last: ["a.*"] },
    { multi_last: ["a.0", "a.2"], batch: 1 },
    { multi_last: ["a.>"], up_to_seq: numbers[2] },
    { multi_last: ["a.none"] },
  ];
  for (const [at, query] of lasts.entries()) {
    const call = () => jsm.direct.getLastMessagesFor("A", query);
    await of(`last for ${at}`, async () => (await all(await call())).map(said));
  }
  await of("delete", () => jsm.streams.deleteMessage("A", numbers[3]));
  await of("delete, kept on disk", () => one.deleteMessage(numbers[4], false));
  await of("delete again", () => jsm.streams.deleteMessage("A", numbers[3]));
  await of("details", () => jsm.streams.info("A", { deleted_details: true }));
  await of("purge subject", () => jsm.streams.purge("A", { filter: "a.0" }));
  await of("purge below", () => jsm.streams.purge("A", { seq: numbers[2] }));
  await of("purge but one", () => jsm.streams.purge("A", { keep: 1 }));
  await of("at last", () => jsm.streams.info("A"));
  const account = await jsm.getAccountInfo();
  outcomes.note("account", [account.streams, account.consumers]);
  await of("delete stream", () => jsm.streams.delete("A"));
  await of("delete it again", () => jsm.streams.delete("A"));
  await jsm.streams.delete("B");
}

async function consumers({ js, jsm, fill }) {
  await jsm.streams.add({ name: "C", subjects: ["c.>"] });
  const numbers = await fill("c", 9);
  const explicit = { ack_policy: AckPolicy.Explicit };
  const since = "2020-01-01T00:00:00Z";
  const add = (name, config) => of(name, () => jsm.consumers.add("C", { name, ...config }));
  await add("d", { durable_name: "d", ...explicit });
  await add("d", { durable_name: "d", ...explicit });
  await of("legacy", () => jsm.consumers.add("C", { durable_name: "legacy", ...explicit }));
  await add("f", { filter_subject: "c.1", ack_wait: nanos(7000) });
  await add("g", { filter_subjects: ["c.0", "c.2"], inactive_threshold: nanos(60000) });
  await add("last", { deliver_policy: DeliverPolicy.Last });
  await add("new", { deliver_policy: DeliverPolicy.New });
  await add("each", { deliver_policy: DeliverPolicy.LastPerSubject, filter_subject: "c.>" });
  await add("number", { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: numbers[4] });
  await add("time", { deliver_policy: DeliverPolicy.StartTime, opt_start_time: since });
  await add("limits", { max_batch: 5, max_bytes: 1000, max_expires: nanos(9000), max_waiting: 3 });
  await add("backoff", { backoff: [nanos(1000), nanos(2000)], max_deliver: 3, ...explicit });
  await add("replay", { replay_policy: ReplayPolicy.Original, headers_only: true });
  await add("push", { deliver_subject: "to.me", idle_heartbeat: nanos(5000), flow_control: true });
  await add("bad", { filter_subject: "x" });
  await of("update", () => jsm.consumers.update("C", "d", { max_deliver: 4 }));
  await of("update none", () => jsm.consumers.update("C", "none", { max_deliver: 4 }));
  await of("info", () => jsm.consumers.info("C", "d"));
  await of("info of none", () => jsm.consumers.info("C", "none"));
  await of("list", () => all(jsm.consumers.list("C")));
  await of("pause", () => jsm.consumers.pause("C", "d", new Date("2036-01-01T00:00:00Z")));
  await of("paused", () => jsm.consumers.info("C", "d"));
  await of("resume", () => jsm.consumers.resume("C", "d"));
  const consumer = await js.consumers.get("C", "d");
  for await (const one of await consumer.fetch({ max_messages: 4 })) await one.ackAck();
  if (!isOld) {
    await of("reset", () => jsm.consumers.reset("C", "d"));
    await of("reset to", () => jsm.consumers.reset("C", "d", numbers[1]));
    const below = () => jsm.consumers.reset("C", "number", numbers[0]);
    await of("reset below", below);
    await of("unpin", () => jsm.consumers.unpin("C", "d", "g"));
  }
  await of("next", async () => got(await consumer.next()));
  await of("delete", () => jsm.consumers.delete("C", "d"));
  await of("delete again", () => jsm.consumers.delete("C", "d"));
}

async function pulling({ js, jsm, publish, fill }) {
  await jsm.streams.add({ name: "L", subjects: ["l.>"] });
  await fill("l", 12);
  await jsm.consumers.add("L", { durable_name: "d", ack_policy: AckPolicy.Explicit });
  const consumer = await js.consumers.get("L", "d");
  const four = await all(await consumer.fetch({ max_messages: 4, expires: PATIENCE_MS }));
  outcomes.note("four", four.map(got));
  four[1].nak();
  four[2].term("of no use");
  four[3].working();
  await of("confirmed", () => four[0].ackAck());
  const again = await consumer.next({ expires: PATIENCE_MS });
  outcomes.note("again", got(again));
  again.ack();
  const rest = await all(await consumer.fetch({ max_messages: 100, expires: 1000 }));
  outcomes.note("rest", rest.map(got));
  four[3].nak(200);
  const late = await consumer.next({ expires: PATIENCE_MS });
  outcomes.note("late", got(late));
  for (const one of [...rest, late]) await one.ackAck();
  await of("info", () => consumer.info());
  await of("cached", async () => (await consumer.info(true)).name);
  await of("none", () => consumer.next({ expires: 1000 }));
  const waiting = consumer.next({ expires: PATIENCE_MS });
  while ((await jsm.consumers.info("L", "d")).num_waiting === 0);
  await publish("l.1", "new");
  const fresh = await waiting;
  outcomes.note("waited", got(fresh));
  fresh.ack();

  await jsm.consumers.add("L", { durable_name: "each", ack_policy: AckPolicy.Explicit });
  const each = await js.consumers.get("L", "each");
  const messages = await each.consume({ max_messages: 5, expires: 2000, idle_heartbeat: 500 });
  for (const one of await take(messages, 13)) {
    outcomes.note("consumed", said(one));
    await one.ackAck();
  }
  await leave(messages);
  const seen = [];
  const { promise, resolve } = Promise.withResolvers?.() ?? deferred();
  await publish("l.2", "to the callback");
  const called = await each.consume({
    max_bytes: 2000,
    callback: (one) => {
      seen.push(one.string());
      one.ack();
      resolve();
    },
  });
  await promise;
  await leave(called);
  outcomes.note("callback", seen);
  const batch = await each.fetch({ max_bytes: 400, expires: 1000 });
  outcomes.note("bytes", (await all(batch)).map(said));
  await of("delete", () => each.delete());
  await of("get none", () => js.consumers.get("L", "each"));

  const ordered = await js.consumers.get("L", { filter_subjects: ["l.0", "l.2"] });
  outcomes.note("ordered", (await all(await ordered.fetch({ max_messages: 4 }))).map(said));
  await of("ordered, next", async () => said(await ordered.next()));
  const everything = await js.consumers.get("L");
  const flow = await everything.consume({ max_messages: 4, idle_heartbeat: 500, expires: 2000 });
  const found = await take(flow, 6);
  await leave(flow);
  outcomes.note("ordered, consumed", found.map(said));
  const named = await js.streams.get("L");
  const last = await named.getConsumer({ deliver_policy: DeliverPolicy.Last });
  await of("last", async () => said(await last.next()));
}

function deferred() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}

// The subscriptions of the older package, which the newer does not have.
async function subscriptions({ js, jsm, publish, fill }) {
  await jsm.streams.add({ name: "U", subjects: ["u.>"] });
  await fill("u", 8);
  const { consumerOpts } = core;
  const options = () => consumerOpts().ackExplicit().manualAck();
  const push = await js.subscribe("u.>", options().durable("d").deliverTo("to.d"));
  for (const one of await take(push, 8)) {
    outcomes.note("push", got(one));
    await one.ackAck();
  }
  await of("info", () => jsm.consumers.info("U", "d"));
  const bound = () => js.subscribe("u.>", consumerOpts().bind("U", "d").manualAck());
  await of("bind to none", () => js.subscribe("u.>", consumerOpts().bind("U", "none")));
  await publish("u.1", "again");
  const again = await bound();
  outcomes.note("bound", (await take(again, 1)).map(said));
  await again.destroy();
  await of("destroyed", () => jsm.consumers.info("U", "d"));
  const ordered = await js.subscribe("u.>", consumerOpts().orderedConsumer());
  outcomes.note("ordered", (await take(ordered, 9)).map(said));
  const group = options().queue("g").durable("g").deliverTo("to.g");
  const member = await js.subscribe("u.>", group);
  outcomes.note("group", (await take(member, 9)).map(said));
  const flow = consumerOpts().deliverTo("to.f").flowControl().idleHeartbeat(500).ackNone();
  outcomes.note("flow", (await take(await js.subscribe("u.>", flow.headersOnly()), 9)).map(said));
  const pull = await js.pullSubscribe("u.>", options().durable("p").ackWait(60000));
  pull.pull({ batch: 5, expires: 5000 });
  const five = await take(pull, 5);
  outcomes.note("pull subscription", five.map(got));
  await of("pull", async () => got(await js.pull("U", "p", 1000)));
  const fetched = js.fetch("U", "p", { batch: 2, expires: 1000 });
  outcomes.note("fetch", (await all(fetched)).map(got));
  const next = js.fetch("U", "p", { batch: 5, no_wait: true });
  outcomes.note("fetch at once", (await all(next)).map(got));
  await of("pull of none", () => js.pull("U", "p", 500));
  await of("account's streams", () => all(jsm.streams.listKvs()));
  await of("a bucket", async () => (await js.views.kv("K")).bucketName);
  await of("an object store", async () => (await js.views.os("O")).constructor.name);
}

// Push consumers and batches of the newer package.
async function pushing({ js, jsm, publish, fill }) {
  await jsm.streams.add({ name: "U", subjects: ["u.>"] });
  await fill("u", 8);
  const config = { durable_name: "d", deliver_subject: "to.d", ack_policy: AckPolicy.Explicit };
  await jsm.consumers.add("U", { ...config, idle_heartbeat: nanos(500), flow_control: true });
  const push = await js.consumers.getPushConsumer("U", "d");
  const messages = await push.consume();
  for (const one of await take(messages, 8)) {
    outcomes.note("push", got(one));
    await one.ackAck();
  }
  await of("info", async () => (await push.info()).num_ack_pending);
  await of("get as pull", () => js.consumers.get("U", "d"));
  await leave(messages);
  const bound = await js.consumers.getBoundPushConsumer({ deliver_subject: "to.d" });
  const more = await bound.consume();
  await publish("u.1", "again");
  outcomes.note("bound", (await take(more, 1)).map(said));
  await leave(more);
  await of("delete", () => push.delete());
  const ordered = await js.consumers.getPushConsumer("U", { filter_subjects: ["u.1"] });
  const flow = await ordered.consume();
  outcomes.note("ordered push", (await take(flow, 4)).map(said));
  await leave(flow);
  await of("a batch", async () => {
    const batch = await js.startBatch("u.1", "first");
    await batch.commit("u.1", "last");
    return "committed";
  });
}

async function later({ jsm }) {
  await of("a limit", () => jsm.streams.add({ name: "X", subjects: ["x"], max_msgs: 5 }));
  const retention = RetentionPolicy.Workqueue;
  await of("a work queue", () => jsm.streams.add({ name: "W", subjects: ["w"], retention }));
}

for (const section of [streams, consumers, pulling, isOld ? subscriptions : pushing, later]) {
  await withClient(section);
}
outcomes.print();
