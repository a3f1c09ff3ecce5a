/**
 * The client: publish with numbers, read with resume, ask.
 *
 *     Client
 *     |-- Link          the connection of a NATS client, which may be yours
 *     |-- Publishing    messages that wait for their numbers
 *     `-- Reader        of each `read`
 */

import { installedClient } from "#host";
import { InvalidArgument, NotFound } from "./errors.js";
import { checkSubject, Reader } from "./reading.js";
import { Link } from "./link.js";
import { stored } from "./message.js";
import { Publishing } from "./publishing.js";

const REQUEST_MS = 10_000;

/**
 * @typedef {import("./errors.js").JournalChanged} JournalChanged
 * @typedef {import("./errors.js").Lost} Lost
 * @typedef {import("./link.js").NatsConnectionLike} NatsConnectionLike
 * @typedef {import("./message.js").Message} Message
 * @typedef {import("./publishing.js").PublishOptions} PublishOptions
 * @typedef {import("./reading.js").Info} Info
 * @typedef {import("./reading.js").ReadOptions} ReadOptions
 */

/**
 * `connect` of a NATS client, such as `wsconnect` of `@nats-io/nats-core`.
 *
 * @typedef {(options: any) => Promise<NatsConnectionLike>} ConnectNats
 */

/**
 * Connect with the NATS client that is installed, `@nats-io/transport-node` or `nats`; or with the
 * one that is given, as a browser must: `connect(options, wsconnect)`.
 *
 * `options` are those of its `connect`. Unless they say otherwise, it connects again for ever. The
 * frame is `stamp`: payloads are unchanged, and messages have their time.
 *
 * @param {{ servers?: string | string[], [option: string]: any }} [options]
 * @param {ConnectNats} [connectNats]
 * @returns {Promise<Client>}
 */
export async function connect(options = {}, connectNats) {
  const open = connectNats ?? (await installedClient());
  const connection = await open({
    maxReconnectAttempts: -1,
    ...options,
    // What an authenticator returns becomes part of CONNECT.
    authenticator: [options.authenticator ?? [], () => ({ frame: "stamp" })].flat(),
  });
  return new Client(connection, { frame: "stamp", closesConnection: true });
}

/** A client over one connection. */
export class Client {
  #link;
  #publishing;
  #closesConnection;

  /**
   * Use this connection. `frame` is that of its CONNECT option, if it has one; otherwise the listener
   * says which it is. `close` leaves the connection open, unless `closesConnection` is true.
   *
   * @param {NatsConnectionLike} connection
   * @param {{ frame?: "netstring" | "header" | "stamp", inboxPrefix?: string,
   *     closesConnection?: boolean }} [options]
   */
  constructor(connection, options = {}) {
    this.#closesConnection = options.closesConnection ?? false;
    this.#link = new Link(connection, options);
    this.#publishing = new Publishing(
      this.#link,
      () => this.info(),
      (id, subject, first, last) => this.#findId(id, subject, first, last),
    );
  }

  /** The connection of the NATS client. */
  get connection() {
    return this.#link.connection;
  }

  /** True if nothing more can be done with it: it was closed, or the connection was. */
  get isClosed() {
    return this.#link.isClosed;
  }

  /**
   * Publish a message, and return its number when it is as safe as the broker promises.
   *
   * The message is repeated until it has its number, over broken connections and restarts, and gets
   * it once. Thousands may be in flight, in the order of the calls.
   *
   * Throws `Refused` and `WrongLastNumber`: nothing was published. `Unconfirmed`: no answer in
   * `timeout` ms. `InvalidArgument`: it cannot be sent.
   *
   * @param {string} subject
   * @param {Uint8Array | string} [payload]
   * @param {PublishOptions} [options]
   * @returns {Promise<number>}
   */
  publish(subject, payload = "", options = {}) {
    return this.#publishing.publish(subject, payload, options);
  }

  /**
   * Read messages to `subject`, from the past on, each once and in order: `for await`.
   *
   * It begins with the first message there is, or where `options` says, and goes on with live
   * messages. A connection that breaks is made again, and reading goes on with the next number.
   * Numbers that do not exist any more throw `Lost`, and another journal `JournalChanged`; with
   * `losses: "yield"` these are items, and reading goes on behind them.
   *
   * @overload
   * @param {string} subject
   * @param {ReadOptions & { losses: "yield" }} options
   * @returns {Reader<Message | Lost | JournalChanged>}
   */
  /**
   * @overload
   * @param {string} [subject]
   * @param {ReadOptions} [options]
   * @returns {Reader<Message>}
   */
  /**
   * @param {string} [subject]
   * @param {ReadOptions} [options]
   * @returns {Reader<any>}
   */
  read(subject = ">", options = {}) {
    return new Reader(this.#link, subject, options);
  }

  /**
   * Return the message with this number. Throws `NotFound`.
   *
   * @param {number} number
   * @param {{ timeout?: number }} [options] ms
   * @returns {Promise<Message>}
   */
  async get(number, { timeout = REQUEST_MS } = {}) {
    if (!Number.isSafeInteger(number) || number < 1) {
      throw new InvalidArgument(`${number} is no number of a message; the first is 1`);
    }
    const answer = await this.#link.ask(`$SEQ.GET.${number}`, timeout, `number ${number}`);
    return stored(answer, this.#link.frame);
  }

  /**
   * Return the last message of exactly this subject; null if there is none.
   *
   * @param {string} subject
   * @param {{ timeout?: number }} [options] ms
   * @returns {Promise<Message | null>}
   */
  async last(subject, { timeout = REQUEST_MS } = {}) {
    checkSubject(subject);
    try {
      const answer = await this.#link.ask(`$SEQ.LAST.${subject}`, timeout, subject);
      return stored(answer, this.#link.frame);
    } catch (error) {
      if (error instanceof NotFound) return null;
      throw error;
    }
  }

  /**
   * Return what the broker keeps: its journal, the first and the last number, limits.
   *
   * @param {{ timeout?: number }} [options] ms
   * @returns {Promise<Info>}
   */
  async info({ timeout = REQUEST_MS } = {}) {
    const answer = await this.#link.ask("$SEQ.INFO", timeout);
    return JSON.parse(new TextDecoder().decode(answer.data));
  }

  /**
   * End all reading, fail what has no number yet, and free what the connection holds for us. The
   * connection is closed, too, if `connect` of this package has made it.
   */
  async close() {
    this.#link.close();
    if (this.#closesConnection) await this.connection.close();
  }

  /**
   * @param {string} id
   * @param {string} subject
   * @param {number} first
   * @param {number} last
   * @returns {Promise<number>}
   */
  async #findId(id, subject, first, last) {
    if (first > last) return 0;
    for await (const message of this.read(subject, { start: first, until: last })) {
      if (message.headers?.get("Nats-Msg-Id") === id) return message.number;
    }
    return 0;
  }
}
