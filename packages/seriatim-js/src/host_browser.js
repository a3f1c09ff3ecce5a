/** What `host.js` has, in a browser: it has no files, and finds no packages. */

import { InvalidArgument } from "./errors.js";

/** @returns {Promise<import("./client.js").ConnectNats>} */
export async function installedClient() {
  throw new InvalidArgument(
    "a browser finds no NATS client by itself: connect(options, wsconnect), with wsconnect of" +
      " @nats-io/nats-core",
  );
}

/** @returns {Promise<string | undefined>} */
export async function readText() {
  throw noFiles();
}

/** @returns {Promise<void>} */
export async function replaceText() {
  throw noFiles();
}

function noFiles() {
  return new InvalidArgument("a browser has no files: give position as { load, save }");
}
