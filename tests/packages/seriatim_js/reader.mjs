// Reads, and says on stdout what it gets: reader.mjs WAY URLS SUBJECT OPTIONS, the last in JSON.
//
//     <number> <payload>              a message
//     lost <first> <last>             numbers that are gone
//     changed <number> <last>         another journal: the number reached, and its last one
//     raised <name> <message>         an error; with "again" in the options, it reads on behind it
//     end                             the loop has ended
import { JournalChanged, Lost } from "seriatim";
import { ways } from "./opened.mjs";

const [way, urls, subject, given] = process.argv.slice(2);
const { again, ...options } = JSON.parse(given);
const client = await ways[way](urls);
const reader = client.read(subject, options);

async function read() {
  for await (const item of reader) {
    if (item instanceof Lost) console.log(`lost ${item.first} ${item.last}`);
    else if (item instanceof JournalChanged) {
      console.log(`changed ${item.before.number} ${item.now.number}`);
    } else console.log(`${item.number} ${item.text()}`);
  }
  console.log("end");
}

for (let round = 0; round < (again ? 2 : 1); round += 1) {
  try {
    await read();
  } catch (error) {
    console.log(`raised ${error.name} ${error.message}`);
    if (client.connection.protocol.subscriptions.size() > 1) console.log("not freed");
  }
}
await client.close();
