// Survives a restart of its broker: says "connected", "disconnected" and "reconnected" on stdout,
// and ends well when its subscription still works afterwards.
import assert from "node:assert/strict";
import { connect } from "nats";
import { said, take, url } from "./served.mjs";

const client = await connect({ servers: url, reconnectTimeWait: 20, maxReconnectAttempts: -1 });
const subscription = client.subscribe("js.again");
const incoming = subscription[Symbol.asyncIterator]();
client.publish("js.again", "before");
assert.equal(said((await incoming.next()).value), "before");
console.log("connected");

for await (const status of client.status()) {
  if (status.type === "disconnect") console.log("disconnected");
  if (status.type === "reconnect") break;
}
console.log("reconnected");
const fresh = client.subscribe("js.again");
client.publish("js.again", "after");
assert.deepEqual((await take(fresh, 1)).map(said), ["after"]);
assert.equal(said((await incoming.next()).value), "after");
await client.close();
console.log("done");
