// A user's program, which the compiler reads and nobody runs.
import { connect as connectNats } from "nats";
import { connect as connectNatsIo, headers } from "@nats-io/transport-node";
import {
  Client,
  connect,
  decodeFrame,
  encodeFrame,
  FrameDecoder,
  JournalChanged,
  Lost,
  Unconfirmed,
  type Position,
} from "seriatim";

const one: Client = new Client(await connectNats({ servers: "127.0.0.1" }), { frame: "header" });
const two: Client = new Client(await connectNatsIo({ servers: "127.0.0.1" }));
const three: Client = await connect({ servers: ["127.0.0.1"], name: "three" });

const block = headers();
block.set("a", "b");
const number: number = await one.publish("a", "text", { headers: block, id: "7", timeout: 5000 });
await two.publish("a", new Uint8Array(5), { headers: { a: ["b", "c"] }, expect: { last: number } });
try {
  await three.publish("a", undefined, { expect: number });
} catch (error) {
  if (error instanceof Unconfirmed) console.log(error.id, error.subject.length);
}

let kept: Position | undefined;
const position = { load: () => kept, save: (place: Position) => void (kept = place) };
for await (const message of one.read("a.>", { start: 5, until: "now", position })) {
  const digits: number = message.number;
  const payload: Uint8Array = message.payload;
  const header: string | undefined = message.headers?.get("a");
  console.log(digits, payload, header, message.reply.length, message.time.length);
}
const reader = two.read("a", { losses: "yield", since: new Date(), signal: AbortSignal.timeout(5) });
for await (const item of reader) {
  if (item instanceof Lost) console.log(item.first + item.last);
  else if (item instanceof JournalChanged) console.log(item.before.journal, item.now.number);
  else console.log(item.subject, item.text(), reader.position.journal);
}
console.log((await three.get(5)).number, (await three.last("a"))?.number, (await three.info()).last);
console.log(decodeFrame(encodeFrame(5n, "x")).number, [...new FrameDecoder().feed(new Uint8Array())]);

// @ts-expect-error a message has no such thing
(await three.get(5)).sequence;
// @ts-expect-error one of two words
three.read("a", { losses: "ignore" });
// @ts-expect-error without `losses: "yield"` there are messages alone
for await (const item of three.read("a")) console.log(item.first);
await Promise.all([one.close(), two.close(), three.close()]);
