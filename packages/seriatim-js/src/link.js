/**
 * One connection of a NATS client, as the rest of this package sees it: up or down, and answers.
 *
 *     Link
 *     |-- status loop    hears of breaks before the client can repeat its SUB lines
 *     |-- inbox          one subscription for all answers to `ask`
 *     `-- listeners      the readers and the publishing: `up`, `down`, `refused`, `closed`
 *
 * Both npm clients drop what is sent while the connection is broken, and leave requests to their
 * timeouts. So nothing is sent while the link is down, and a break fails what waits for an answer.
 */

import { ConnectionLost, NoAnswer, NotFound, NotSeriatim, Refused } from "./errors.js";

const [NOT_FOUND, NO_RESPONDERS] = [404, 503];
const ABOUT = /Permissions Violation for (Publish|Subscription) to "([^"]*)"(?:: )?(.*?)'?$/i;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Hears of a connection, does nothing. */
export function nothing() {}

/**
 * Return `size` random letters of 6 bits each.
 *
 * @param {number} size
 * @returns {string}
 */
export function randomText(size) {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(size));
  return Array.from(bytes, (byte) => LETTERS[byte & 63]).join("");
}

/**
 * Return why the broker has refused something, from an error of the NATS client.
 *
 * @param {unknown} error
 * @returns {string}
 */
export function reasonOf(error) {
  const words = error instanceof Error ? error.message : String(error);
  return ABOUT.exec(words)?.[3] || words;
}

/** A connection, and what waits for it. */
export class Link {
  #statuses;
  /** @type {Set<Listener>} */
  #listeners = new Set();
  /** @type {NativeSubscription | undefined} */
  #answers;
  /** @type {Map<number, Asked>} */
  #asked = new Map();
  #token = 0;
  #inbox;
  #frame;
  #isUp;

  /**
   * @param {NatsConnectionLike} connection
   * @param {{ frame?: string, inboxPrefix?: string }} options
   */
  constructor(connection, { frame, inboxPrefix }) {
    this.connection = connection;
    this.isClosed = connection.isClosed();
    /** @type {Error | undefined} why it was closed, unless a user closed it */
    this.error = undefined;
    this.#isUp = !this.isClosed && connection.info !== undefined;
    this.#frame = frame;
    const prefix = inboxPrefix ?? /** @type {any} */ (connection).options?.inboxPrefix ?? "_INBOX";
    this.#inbox = `${prefix}.${randomText(22)}`;
    this.#statuses = connection.status();
    this.#hear().then(nothing, nothing);
    connection.closed().then(
      (error) => this.close(error instanceof Error ? error : undefined),
      (error) => this.close(error),
    );
  }

  /** True if there is a connection at the moment. */
  get isUp() {
    return this.#isUp && !this.connection.isClosed();
  }

  /** The form in which numbers come on this connection. */
  get frame() {
    return this.#frame ?? String(this.#info("frame") ?? "");
  }

  /** The largest message that the broker accepts, headers included. */
  get maxPayload() {
    return Number(this.#info("max_payload") ?? Infinity);
  }

  /** @param {string} name */
  #info(name) {
    return /** @type {Record<string, unknown> | undefined} */ (this.connection.info)?.[name];
  }

  /** Throw if this is a server without numbers, or a listener that does not send them. */
  checkNumbers() {
    if (this.connection.info !== undefined && this.#info("seriatim") === undefined) {
      throw new NotSeriatim("the server has no numbers to read by: it is not Seriatim");
    }
    if (!["netstring", "header", "stamp"].includes(this.frame)) {
      throw new NotSeriatim(
        `this listener sends messages without their numbers (frame "${this.frame}"); use one with` +
          " netstring, header or stamp, or connect with connect() of this package",
      );
    }
  }

  /** A new subject for answers of one's own. */
  newInbox() {
    return `${this.#inbox}.${randomText(8)}`;
  }

  /** @param {Listener} listener */
  add(listener) {
    this.#listeners.add(listener);
  }

  /** @param {Listener} listener */
  remove(listener) {
    this.#listeners.delete(listener);
  }

  async #hear() {
    for await (const status of this.#statuses) {
      if (this.isClosed) return;
      if (status.type === "disconnect") this.#down();
      else if (status.type === "reconnect") this.#up();
      else if (status.type === "error") this.#refused(status);
    }
  }

  #up() {
    if (this.#isUp) this.#down(); // a break that we did not hear of
    this.#isUp = true;
    for (const listener of [...this.#listeners]) listener.up();
  }

  #down() {
    this.#isUp = false;
    this.#failAll(new ConnectionLost("the connection broke"));
    for (const listener of [...this.#listeners]) listener.down();
  }

  /**
   * End it: free all that the NATS client holds for us. The connection itself stays as it is.
   *
   * @param {Error} [error]
   */
  close(error) {
    if (this.isClosed && this.#answers === undefined && this.#listeners.size === 0) return;
    this.isClosed = true;
    this.#isUp = false;
    this.error ??= error;
    const why = error ? `the NATS connection was closed: ${error.message}` : "it was closed";
    const lost = new ConnectionLost(why, { cause: error });
    this.#statuses.stop?.();
    this.#answers?.unsubscribe();
    this.#answers = undefined;
    this.#failAll(lost);
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener.closed(lost, error !== undefined);
  }

  /** @param {ConnectionLost | Refused} error */
  #failAll(error) {
    const asked = [...this.#asked.values()];
    this.#asked.clear();
    for (const one of asked) one.fail(error);
  }

  /**
   * Fail what an `-ERR` is about. The clients tell it in different ways.
   *
   * @param {NativeStatus} status
   */
  #refused(status) {
    const found = status.permissionContext ?? /** @type {any} */ (status.error);
    if (found?.operation !== "publish" || typeof found.subject !== "string") return;
    const reason = status.error ? reasonOf(status.error) : "permissions violation";
    const error = new Refused(reason, found.subject);
    for (const one of [...this.#asked.values()]) if (one.subject === found.subject) one.fail(error);
    for (const listener of [...this.#listeners]) listener.refused?.(found.subject, reason);
  }

  /**
   * Wait until there is a connection.
   *
   * @param {number} ms
   * @returns {Promise<void>}
   */
  whenUp(ms) {
    return new Promise((resolve, reject) => {
      /** @param {unknown} [error] */
      const end = (error) => {
        clearTimeout(timer);
        this.remove(listener);
        error === undefined ? resolve() : reject(error);
      };
      const listener = { up: () => end(), down: nothing, closed: end };
      const timer = setTimeout(() => end(new NoAnswer("there was no connection in time")), ms);
      if (this.isUp || this.isClosed) end(this.isUp ? undefined : this.#closedError());
      else this.add(listener);
    });
  }

  #closedError() {
    const why = this.error ? `: ${this.error.message}` : "";
    return new ConnectionLost(`the connection is closed${why}`, { cause: this.error });
  }

  /**
   * Ask the broker, on this connection only.
   *
   * @param {string} subject
   * @param {number} ms
   * @param {Set<(error: unknown) => void>} [cancels] gets a function that ends the wait
   * @returns {Promise<NativeMessage>}
   */
  askOnce(subject, ms, cancels) {
    return new Promise((resolve, reject) => {
      if (this.isClosed) return reject(this.#closedError());
      if (!this.isUp) return reject(new ConnectionLost("there is no connection at the moment"));
      this.#token += 1;
      const token = this.#token;
      const end = () => {
        clearTimeout(timer);
        this.#asked.delete(token);
        cancels?.delete(fail);
      };
      /** @param {unknown} error */
      const fail = (error) => {
        end();
        reject(error);
      };
      const timer = setTimeout(() => fail(new NoAnswer(`${subject}: no answer in time`)), ms);
      cancels?.add(fail);
      /** @param {NativeMessage} answer */
      const take = (answer) => {
        end();
        resolve(answer);
      };
      this.#asked.set(token, { subject, take, fail });
      try {
        this.#answers ??= this.#subscribe();
        this.connection.publish(subject, "", { reply: `${this.#inbox}.${token}` });
      } catch (error) {
        fail(new ConnectionLost(reasonOf(error), { cause: error }));
      }
    });
  }

  #subscribe() {
    const subscription = this.connection.subscribe(`${this.#inbox}.*`, {
      callback: (/** @type {unknown} */ error, /** @type {NativeMessage} */ answer) => {
        if (error) {
          this.#answers = undefined;
          this.#failAll(new Refused(reasonOf(error), `${this.#inbox}.*`));
        } else {
          this.#asked.get(Number(answer.subject.slice(this.#inbox.length + 1)))?.take(answer);
        }
      },
    });
    return subscription;
  }

  /**
   * Ask the broker, again after a break.
   *
   * @param {string} subject
   * @param {number} ms
   * @param {string} [about] the subject for errors
   * @returns {Promise<NativeMessage>}
   */
  async ask(subject, ms, about = subject) {
    const end = performance.now() + ms;
    for (;;) {
      try {
        await this.whenUp(Math.max(end - performance.now(), 1));
        return checked(await this.askOnce(subject, Math.max(end - performance.now(), 1)), about);
      } catch (error) {
        if (!(error instanceof ConnectionLost) || this.isClosed) throw error;
        if (performance.now() >= end) throw new NoAnswer(`${subject}: no answer in time`);
      }
    }
  }
}

/**
 * Return an answer of the broker, or throw its refusal.
 *
 * @param {NativeMessage} answer
 * @param {string} about
 * @returns {NativeMessage}
 */
export function checked(answer, about) {
  const { code = 0, description = "" } = answer.headers ?? {};
  if (!code) return answer;
  if (code === NO_RESPONDERS) throw new NotSeriatim("the server has no numbers: it is not Seriatim");
  if (code === NOT_FOUND) throw new NotFound(description, about, code);
  throw new Refused(description || `status ${code}`, about, code);
}

/**
 * @typedef {import("./message.js").NativeMessage} NativeMessage
 */

/**
 * @typedef {object} Asked
 * @property {string} subject
 * @property {(answer: NativeMessage) => void} take
 * @property {(error: unknown) => void} fail
 */

/**
 * Something that must know of the connection.
 *
 * @typedef {object} Listener
 * @property {() => void} up
 * @property {() => void} down
 * @property {(error: ConnectionLost, isFailure: boolean) => void} closed
 * @property {(subject: string, reason: string) => void} [refused]
 */

/**
 * A subscription, as both npm clients have it.
 *
 * @typedef {object} NativeSubscription
 * @property {(max?: number) => void} unsubscribe
 */

/**
 * A status, as both npm clients have it.
 *
 * @typedef {object} NativeStatus
 * @property {string} type
 * @property {Error} [error]
 * @property {{ operation: string, subject: string }} [permissionContext]
 */

/**
 * What this package needs of a connection: that of `nats` 2.x, or of `@nats-io/transport-node` 3.x.
 *
 * @typedef {object} NatsConnectionLike
 * @property {object} [info]
 * @property {() => boolean} isClosed
 * @property {() => Promise<void | Error>} closed
 * @property {() => Promise<void>} close
 * @property {() => Promise<void>} flush
 * @property {(subject: string, payload?: any, options?: any) => void} publish
 * @property {(subject: string, options?: any) => NativeSubscription} subscribe
 * @property {() => AsyncIterable<any> & { stop?: () => void }} status
 */
