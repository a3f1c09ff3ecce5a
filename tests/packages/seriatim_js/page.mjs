// What a web application does: it publishes, and reads behind the place that it keeps.
// The hash of its address is the broker's.
import { wsconnect } from "@nats-io/nats-core";
import { connect } from "seriatim";

const options = { servers: location.hash.slice(1), reconnectTimeWait: 10, reconnectJitter: 0 };
const stream = await connect(options, wsconnect);
const position = {
  load: () => JSON.parse(localStorage.getItem("position")),
  save: (place) => localStorage.setItem("position", JSON.stringify(place)),
};
window.seen = [];

// Publish so many messages at once; resolves with their numbers.
window.publish = (count) =>
  Promise.all(Array.from({ length: count }, (_, at) => stream.publish("orders.x", `${at} äpfel`)));

// What `operation` throws.
const thrown = (operation) => operation.then(() => "nothing", ({ name, message }) => `${name}: ${message}`);
window.withoutClient = () => thrown(connect(options));
window.withFile = () => thrown(stream.read("orders.>", { position: "file" }).next());

for await (const message of stream.read("orders.>", { position })) {
  window.seen.push(`${message.number} ${message.text()}`);
}
