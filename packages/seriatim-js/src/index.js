/**
 * Seriatim, a broker that gives every message one number in one order: its client for JavaScript.
 *
 *     const stream = await connect({ servers: "nats://localhost:4222" });
 *     const number = await stream.publish("orders.eu", "10 apples");
 *     for await (const message of stream.read("orders.>")) {   // the past, then live
 *       console.log(message.number, message.subject, message.text());
 *     }
 */

export { Client, connect } from "./client.js";
export * from "./errors.js";
export { Message } from "./message.js";
export { decodeFrame, decodeNumber, encodeFrame, FrameDecoder, NetstringError } from "./netstring.js";
export { Reader } from "./reading.js";

/**
 * @typedef {import("./client.js").ConnectNats} ConnectNats
 * @typedef {import("./errors.js").Position} Position
 * @typedef {import("./link.js").NatsConnectionLike} NatsConnectionLike
 * @typedef {import("./position.js").PositionKeeper} PositionKeeper
 * @typedef {import("./publishing.js").Expect} Expect
 * @typedef {import("./publishing.js").HeadersInit} HeadersInit
 * @typedef {import("./publishing.js").PublishOptions} PublishOptions
 * @typedef {import("./reading.js").Info} Info
 * @typedef {import("./reading.js").ReadOptions} ReadOptions
 */
