// Publishes messages whose payloads are 0, 1, 2 ...: publisher.mjs WAY URLS SUBJECT COUNT [HOW].
// If HOW is `told`, it goes on until it gets a line on stdin, and then for COUNT more; if it is
// `expecting`, each message waits for the one before, and expects to be the next in the journal.
// It says `<payload> <number>` for each answer, and `raised <name> <id>` for what has none.
import { ways } from "./opened.mjs";

const [way, urls, subject, count, how] = process.argv.slice(2);
const isExpecting = how === "expecting";
const IN_FLIGHT = isExpecting ? 0 : 50;
const client = await ways[way](urls);
const sent = [];
let end = Number(count);

async function publish(at) {
  const expect = isExpecting ? { last: at } : undefined;
  try {
    const number = await client.publish(subject, String(at), { id: `${subject}-${at}`, expect });
    console.log(`${at} ${number}`);
  } catch (error) {
    console.log(`raised ${error.name} ${error.id}`);
  }
}

let at = 0;
if (how === "told") {
  end = Infinity;
  process.stdin.once("data", () => {
    end = at + Number(count);
    process.stdin.destroy();
  });
}
for (; at < end; at += 1) {
  sent.push(publish(at));
  if (sent.length > IN_FLIGHT) await sent.shift();
  // As long as it must: what is published meanwhile is all read and judged.
  if (how === "told" && at % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
}
await Promise.all(sent);
await client.close();
