/**
 * Where a reader keeps its place: in a file, or wherever two functions put it.
 *
 * A place is noted when the message has been processed: when the reader asks for the next one. Kept
 * together with the effect of the message, in one transaction, it makes each effect happen once. A
 * file is written at most once a second, and at the end: after a crash, the messages of the last
 * second are read again.
 */

import { InvalidArgument } from "./errors.js";
import { readText, replaceText } from "#host";

const WRITE_MS = 1000;

/**
 * @typedef {import("./errors.js").Position} Position
 */

/**
 * Functions that load and save a position. `save` is awaited, and may be where you commit.
 *
 * @typedef {object} PositionKeeper
 * @property {() => Position | null | undefined | Promise<Position | null | undefined>} load
 * @property {(position: Position) => unknown} save
 */

/**
 * Return a position as it was kept, checked; undefined if there is none.
 *
 * @param {unknown} found
 * @returns {Position | undefined}
 */
export function readPosition(found) {
  if (found === undefined || found === null) return undefined;
  const { journal, number, time = "" } = /** @type {Record<string, unknown>} */ (found);
  const isNumber = Number.isSafeInteger(number) && Number(number) >= 0;
  if (typeof journal !== "string" || !isNumber || typeof time !== "string") {
    const shown = JSON.stringify(found)?.slice(0, 60);
    throw new InvalidArgument(`${shown} is no position: it needs a journal and a number`);
  }
  return { journal, number: Number(number), time };
}

/** A file with a position: one line of JSON, replaced as a whole. */
export class PositionFile {
  #path;
  /** @type {Position | undefined} noted, and not written yet */
  #due;
  #writtenAt = -Infinity;
  /** @type {Promise<void> | undefined} */
  #writing;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {unknown} of a write that nobody waited for */
  #error;

  /** @param {string} path */
  constructor(path) {
    this.#path = path;
  }

  /** @returns {Promise<Position | undefined>} */
  async load() {
    const text = await readText(this.#path);
    if (text === undefined) return undefined;
    try {
      return readPosition(JSON.parse(text));
    } catch {
      throw new InvalidArgument(
        `${this.#path} holds no position; give another file, or delete it to begin again`,
      );
    }
  }

  /**
   * Note a position; it is written if the last time was a second ago, or else when it will be.
   *
   * @param {Position} position
   * @returns {Promise<void> | undefined}
   */
  save(position) {
    this.#due = position;
    if (this.#error !== undefined) return this.flush();
    const wait = this.#writtenAt + WRITE_MS - performance.now();
    if (wait <= 0 && this.#writing === undefined) return this.flush();
    this.#timer ??= setTimeout(() => {
      this.flush().catch((error) => {
        this.#error = error;
      });
    }, Math.max(wait, 1));
    return undefined;
  }

  /** Write what was noted. */
  async flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#writing !== undefined) await this.#writing;
    if (this.#error !== undefined) {
      const error = this.#error;
      this.#error = undefined;
      throw error;
    }
    const due = this.#due;
    if (due === undefined) return;
    this.#due = undefined;
    this.#writing = this.#write(due).finally(() => {
      this.#writing = undefined;
    });
    try {
      await this.#writing;
    } catch (error) {
      this.#due ??= due;
      throw error;
    }
  }

  /** @param {Position} position */
  async #write(position) {
    await replaceText(this.#path, `${JSON.stringify(position)}\n`);
    this.#writtenAt = performance.now();
  }
}
