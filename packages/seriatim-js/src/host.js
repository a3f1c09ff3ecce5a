/**
 * What node, Deno and Bun have, and a browser has not: files, and a NATS client of their own choice.
 *
 * `host_browser.js` takes its place in a browser: the package's `imports` say so to bundlers.
 */

import { InvalidArgument } from "./errors.js";

const CLIENTS = ["@nats-io/transport-node", "nats"];

/**
 * Return `connect` of the NATS client that is installed.
 *
 * @returns {Promise<import("./client.js").ConnectNats>}
 */
export async function installedClient() {
  for (const name of CLIENTS) {
    try {
      return (await import(name)).connect;
    } catch (error) {
      const { code, message } = /** @type {any} */ (error);
      if (code !== "ERR_MODULE_NOT_FOUND" || !message.includes(name)) throw error;
    }
  }
  throw new InvalidArgument(`no NATS client is installed: npm install ${CLIENTS.at(-1)}`);
}

/**
 * Return what is in a file; undefined if there is none.
 *
 * @param {string} path
 * @returns {Promise<string | undefined>}
 */
export async function readText(path) {
  const { readFile } = await import("node:fs/promises");
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (/** @type {any} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Replace a file as a whole: after a crash it has the old text or the new one.
 *
 * @param {string} path
 * @param {string} text
 */
export async function replaceText(path, text) {
  const { open, rename, rm } = await import("node:fs/promises");
  const beside = `${path}.${globalThis.process?.pid ?? 0}.new`;
  try {
    const file = await open(beside, "w");
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
