// Publishes COUNT messages, whose payloads are 0, 1, 2 ...: publisher.mjs WAY URL SUBJECT COUNT.
// It says `<payload> <number>` for each answer, and `raised <name> <id>` for what has none.
import { ways } from "./opened.mjs";

const [way, url, subject, count] = process.argv.slice(2);
const IN_FLIGHT = 50;
const client = await ways[way](url);
const sent = [];

async function publish(at) {
  try {
    console.log(at, await client.publish(subject, String(at), { id: `id-${at}` }));
  } catch (error) {
    console.log("raised", error.name, error.id);
  }
}

for (let at = 0; at < Number(count); at += 1) {
  sent.push(publish(at));
  if (sent.length > IN_FLIGHT) await sent.shift();
}
await Promise.all(sent);
await client.close();
