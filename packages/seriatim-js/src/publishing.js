/**
 * Publishes messages and learns their numbers: in order, many in flight, each exactly once.
 *
 *     publish   the message goes out as `$SEQ.PUB.<subject>`, with an id, and is kept
 *     answer    its number: it is forgotten; or a refusal
 *     a break   on the next connection all that are kept go out again, in their order
 *
 * An id makes a repeated message harmless: the broker answers with the number it has. It remembers
 * ids for `journal.dedupe_window` (2 minutes), and a limited number of them. So a message that may
 * have been forgotten is not repeated blindly: its id is looked for in the journal first, behind the
 * last number that was known when it was sent.
 *
 * A cluster that cannot order messages answers 504, and a broker whose streams are still being read
 * after a start cannot judge a condition: those messages go out again a little later, and newer ones
 * wait behind them. What is on its way behind a refused message must not overtake it, though the
 * cluster may recover between the two: after `$SEQ.ORDERED` the broker refuses that, too, until the
 * next `$SEQ.ORDERED`. That one goes out when each message has its answer, and all that were refused
 * follow it. Bounds: `OPEN_MAX` messages and `OPEN_BYTES` bytes in flight; the others wait.
 */

import {
  BrokerError,
  ConnectionLost,
  InvalidArgument,
  MessageTooLarge,
  NotSeriatim,
  Refused,
  Unconfirmed,
  WrongLastNumber,
} from "./errors.js";
import { nothing, randomText, reasonOf } from "./link.js";
import { decodeNumber } from "./netstring.js";
import { checkSubject } from "./reading.js";

const [OPEN_MAX, OPEN_BYTES] = [1 << 14, 16 << 20];
const [SWEEP_MS, AGAIN_MS, RETRY_MS, PUBLISH_MS] = [250, 100, 200, 60_000];
const UNASKED_MS = 60_000; // a message this old is not repeated without asking for the journal
const [NO_RESPONDERS, NOT_NOW] = [503, 504];
const NOT_READ = "the streams are still being read"; // with 503
const [PREFIX, ORDERED] = ["$SEQ.PUB.", "$SEQ.ORDERED"];
const ID = "Nats-Msg-Id";
const WRONG = "wrong last ";
const WRONG_LAST = /wrong last sequence: \d+/;
const encoder = new TextEncoder();

/**
 * What must hold when a message gets its number; otherwise it is refused, and has none.
 *
 * @typedef {object} Expect
 * @property {number} [last] the last number of the stream that holds the subject, or of the journal
 * @property {number} [subjectLast] the last number of its subject, or of those that match `subject`;
 *     0: there is none yet. This one, and `lastId`, need a stream (`serve -js`)
 * @property {string} [subject]
 * @property {string} [stream] the name of the stream that holds the subject
 * @property {string} [lastId] the `id` of the last message of that stream
 */

/**
 * Headers: an object, a `Map`, or those of a NATS client.
 *
 * @typedef {Record<string, string | string[]> | Iterable<[string, string | string[]]>} HeadersInit
 */

/**
 * @typedef {object} PublishOptions
 * @property {HeadersInit} [headers]
 * @property {string} [id] yours, such as the id of an order: a message with an id that was published
 *     in the last minutes returns the number of that one
 * @property {Expect | number} [expect] publish only if this is the last number of the subject
 * @property {number} [timeout] in ms; 60 000
 */

/**
 * @typedef {object} OpenMessage
 * @property {string} subject
 * @property {string} id
 * @property {Uint8Array} payload
 * @property {Uint8Array} head the headers as they are sent
 * @property {number} deadline
 * @property {number} sentAt the first time; 0: not yet
 * @property {boolean} isAgain it was sent before; the answer to that may be lost
 * @property {string} notYet why a cluster has refused it so far
 * @property {number} floor its number is above this one
 * @property {(number: number) => void} resolve
 * @property {(error: BrokerError) => void} reject
 */

/**
 * @typedef {import("./link.js").Link} Link
 * @typedef {import("./message.js").NativeMessage} NativeMessage
 * @typedef {import("./reading.js").Info} Info
 */

/** The messages of one client that wait for their numbers. */
export class Publishing {
  #link;
  #askInfo;
  #findId;
  #inbox;
  #nonce = randomText(12);
  #token = 0;
  /** @type {import("./link.js").NativeSubscription | undefined} */
  #answers;
  /** @type {Map<number, OpenMessage>} in flight, in the order in which they were sent */
  #open = new Map();
  /** @type {Map<number, OpenMessage>} that wait for room */
  #waiting = new Map();
  #bytes = 0;
  /** @type {Set<number>} refused for the moment, or behind such a message */
  #again = new Set();
  #isRepeating = false; // until these are taken, what is published is only kept
  #isReady = false; // what is published is sent; otherwise it is only kept
  #round = 0; // of connections
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #sweeper;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #repeater;
  #journal = ""; // whose numbers we have seen
  #floor = 0; // the highest of them
  #hasLearnt = false; // or tries to, once in a connection
  /** @type {BrokerError | undefined} */
  #closed;

  /**
   * @param {Link} link
   * @param {() => Promise<Info>} askInfo
   * @param {(id: string, subject: string, first: number, last: number) => Promise<number>} findId
   *     returns the number of the message with this id, or 0
   */
  constructor(link, askInfo, findId) {
    this.#link = link;
    this.#askInfo = askInfo;
    this.#findId = findId;
    this.#inbox = link.newInbox();
    this.#isReady = link.isUp;
    link.add(this);
  }

  /**
   * Publish a message when there is room, and return its number.
   *
   * @param {string} subject
   * @param {Uint8Array | string} payload
   * @param {PublishOptions} options
   * @returns {Promise<number>}
   */
  publish(subject, payload, { headers, id, expect, timeout = PUBLISH_MS }) {
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) throw this.#closed;
      if (this.#link.isClosed) throw new ConnectionLost("the connection is closed");
      checkSubject(subject);
      this.#token += 1;
      const fields = new Map(headersOf(headers));
      const known = id || String(fields.get(ID) ?? "") || `${this.#nonce}.${this.#token}`;
      fields.delete(ID);
      const head = headOf([[ID, known], ...fields, ...expected(expect)]);
      const entry = {
        ...{ subject, id: known, payload: bytesOf(payload), head, resolve, reject },
        ...{ deadline: performance.now() + timeout, sentAt: 0, floor: 0, isAgain: false, notYet: "" },
      };
      this.#checkSize(entry);
      this.#waiting.set(this.#token, entry);
      this.#letIn();
      this.#sweepLater();
    });
  }

  /** @param {OpenMessage} entry */
  #checkSize(entry) {
    const size = entry.head.length + entry.payload.length;
    const most = this.#link.maxPayload;
    if (size > most) {
      throw new MessageTooLarge(`the message has ${size} bytes; the broker accepts ${most}`);
    }
  }

  /** Send what waits for room, as long as there is room. */
  #letIn() {
    for (const [token, entry] of this.#waiting) {
      if (this.#open.size >= OPEN_MAX || this.#bytes >= OPEN_BYTES) return;
      this.#waiting.delete(token);
      this.#open.set(token, entry);
      this.#bytes += entry.payload.length + entry.head.length;
      if (this.#isReady && !this.#isRepeating) this.#transmit(token, entry);
    }
  }

  /**
   * @param {number} token
   * @param {OpenMessage} entry
   */
  #transmit(token, entry) {
    try {
      this.#checkSize(entry);
      this.#answers ??= this.#subscribe();
      const headers = { encode: () => entry.head };
      const reply = `${this.#inbox}.${token}`;
      this.#link.connection.publish(PREFIX + entry.subject, entry.payload, { reply, headers });
    } catch (error) {
      const failure =
        error instanceof BrokerError ? error : new ConnectionLost(reasonOf(error), { cause: error });
      this.#fail(token, entry, failure);
      return;
    }
    if (entry.sentAt > 0) {
      entry.isAgain = true;
    } else {
      entry.sentAt = performance.now();
      entry.floor = this.#floor;
    }
    if (!this.#hasLearnt) this.#learn();
  }

  #subscribe() {
    this.#keepOrder();
    return this.#link.connection.subscribe(`${this.#inbox}.*`, {
      callback: (/** @type {unknown} */ error, /** @type {NativeMessage} */ answer) => {
        if (error) {
          this.#answers = undefined;
          this.#failAll(() => new Refused(reasonOf(error), `${this.#inbox}.*`));
        } else {
          this.#answered(answer);
        }
      },
    });
  }

  /** Learn whose numbers these are, and where they are, before there is a break. */
  async #learn() {
    this.#hasLearnt = true;
    try {
      const info = await this.#askInfo();
      this.#journal ||= info.journal;
      this.#floor = Math.max(this.#floor, info.last);
    } catch {
      // it may not ask: after a break it is taken to be the same journal
    }
  }

  // Answers

  /** @param {NativeMessage} answer */
  #answered(answer) {
    const token = Number(answer.subject.slice(this.#inbox.length + 1));
    const entry = this.#open.get(token);
    if (entry === undefined) return; // it gave up, or this is a second answer
    if (answer.data.length === 0) {
      this.#refusedOne(token, entry, answer);
      return;
    }
    try {
      this.#settle(token, entry, decodeNumber(answer.data));
    } catch (error) {
      this.#fail(token, entry, new NotSeriatim(`the answer is no number: ${reasonOf(error)}`));
    }
  }

  /**
   * @param {number} token
   * @param {OpenMessage} entry
   * @param {number} number
   */
  #settle(token, entry, number) {
    this.#forget(token, entry);
    this.#floor = Math.max(this.#floor, number);
    entry.resolve(number);
  }

  /**
   * @param {number} token
   * @param {OpenMessage} entry
   * @param {BrokerError} error
   */
  #fail(token, entry, error) {
    this.#forget(token, entry);
    entry.reject(error);
  }

  /**
   * @param {number} token
   * @param {OpenMessage} entry
   */
  #forget(token, entry) {
    if (this.#open.delete(token)) this.#bytes -= entry.payload.length + entry.head.length;
    this.#waiting.delete(token);
    this.#again.delete(token);
    if (this.#waiting.size > 0 && this.#closed === undefined) this.#letIn();
  }

  /**
   * Take an answer that is a status.
   *
   * @param {number} token
   * @param {OpenMessage} entry
   * @param {NativeMessage} answer
   */
  #refusedOne(token, entry, answer) {
    const { code = 0, description = "" } = answer.headers ?? {};
    if (code === NOT_NOW || description === NOT_READ) {
      entry.notYet = description;
      this.#again.add(token);
      if (!this.#isRepeating) this.#repeatLater();
      this.#isRepeating = true;
      return;
    }
    if (code === NO_RESPONDERS) {
      this.#fail(token, entry, new NotSeriatim("the server gives no numbers: it is not Seriatim"));
      return;
    }
    const Kind = WRONG_LAST.test(description) ? WrongLastNumber : Refused;
    const refusal = new Kind(description || `status ${code}`, entry.subject, code);
    if (entry.isAgain && description.startsWith(WRONG)) {
      this.#settleDoubt(token, entry, refusal).catch(nothing); // it is sent once more
    } else {
      this.#fail(token, entry, refusal);
    }
  }

  /**
   * Look in the journal whether a message was published before its condition was refused: the broker
   * looks at conditions before ids, and the one that was first may be ours.
   *
   * @param {number} token
   * @param {OpenMessage} entry
   * @param {Refused} refusal
   */
  async #settleDoubt(token, entry, refusal) {
    /** @type {BrokerError} */
    let error = refusal;
    let number = 0;
    try {
      const info = await this.#askInfo();
      if (entry.floor + 1 < info.first) throw new BrokerError("its place in the journal is deleted");
      const last = Math.max(info.last, refusal instanceof WrongLastNumber ? refusal.last : 0);
      number = await this.#findId(entry.id, entry.subject, entry.floor + 1, last);
    } catch (why) {
      if (why instanceof ConnectionLost || !(why instanceof BrokerError)) throw why;
      const reason = `it may have been published, or not: ${why.message}`;
      error = new Unconfirmed(reason, entry.subject, entry.id);
    }
    if (this.#open.get(token) !== entry) return;
    if (number > 0) this.#settle(token, entry, number);
    else this.#fail(token, entry, error);
  }

  #repeatLater() {
    this.#repeater = setTimeout(() => this.#repeatRefused().catch(nothing), AGAIN_MS);
  }

  /** Repeat what was refused for the moment, if the first of it is taken; then send what was kept. */
  async #repeatRefused() {
    const round = this.#round;
    const goesOn = () => this.#isReady && round === this.#round; // else the next connection does it
    if (!goesOn()) return;
    await this.#link.connection.flush(); // each message in flight has its answer then
    if (!goesOn()) return;
    const [first, ...others] = [...this.#again].sort((one, other) => one - other);
    this.#again.clear();
    this.#keepOrder();
    this.#transmitAll([first]); // alone: a cluster in trouble gets few messages in vain
    await this.#link.connection.flush();
    if (!goesOn()) return;
    if (this.#again.size > 0) {
      for (const token of others) this.#again.add(token);
      this.#repeatLater();
      return;
    }
    this.#transmitAll(others);
    this.#transmitAll([...this.#open.keys()].filter((token) => this.#open.get(token)?.sentAt === 0));
    this.#isRepeating = false;
  }

  /** @param {number[]} tokens */
  #transmitAll(tokens) {
    for (const token of tokens) {
      const entry = this.#open.get(token);
      if (entry !== undefined) this.#transmit(token, entry);
    }
  }

  /** Let what is behind a refused message be refused, too, until this is sent again. */
  #keepOrder() {
    this.#link.connection.publish(ORDERED);
  }

  #sendAll() {
    if (this.#answers !== undefined) this.#keepOrder();
    this.#transmitAll([...this.#open.keys()]);
  }

  #sweepLater() {
    this.#sweeper ??= setTimeout(() => this.#sweep(), SWEEP_MS);
  }

  /** Give up what has waited too long. */
  #sweep() {
    this.#sweeper = undefined;
    const now = performance.now();
    for (const [token, entry] of [...this.#waiting, ...this.#open]) {
      if (entry.deadline > now) continue;
      const why =
        entry.sentAt > 0
          ? "no answer in time; it may have been published, or not"
          : "there was no connection in time; it was not sent";
      const before = entry.notYet && `; before that the broker refused: ${entry.notYet}`;
      this.#fail(token, entry, new Unconfirmed(why + before, entry.subject, entry.id));
    }
    if (this.#open.size + this.#waiting.size > 0) this.#sweepLater();
  }

  /** @param {(entry: OpenMessage) => BrokerError | undefined} reason */
  #failAll(reason) {
    for (const [token, entry] of [...this.#open]) {
      const error = reason(entry);
      if (error !== undefined) this.#fail(token, entry, error);
    }
  }

  // Connections

  /** Keep what is in flight, for the next connection. */
  down() {
    this.#isReady = this.#hasLearnt = false;
    this.#round += 1;
  }

  /** Send what is kept, in its order; what may be there already is looked for first. */
  up() {
    this.#goOn().catch(nothing);
  }

  async #goOn() {
    const round = this.#round;
    while (round === this.#round && this.#closed === undefined) {
      try {
        if (await this.#settleIn(round)) return;
      } catch (error) {
        if (!(error instanceof BrokerError)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /**
   * @param {number} round
   * @returns {Promise<boolean>} whether it is done, or another connection takes over
   */
  async #settleIn(round) {
    if ([...this.#open.values()].some((entry) => entry.sentAt > 0)) {
      const info = await this.#whatThereIs();
      if (round !== this.#round) return true;
      if (info === undefined) {
        const why = "the broker does not say what it has; it may have been published, or not";
        this.#giveUp(why, UNASKED_MS);
      } else if (this.#journal !== "" && info.journal !== this.#journal) {
        const why = `the broker has another journal now, ${info.journal || "none"}`;
        this.#giveUp(`${why}; it may have been published`);
      } else {
        await this.#lookUp(info, round);
      }
      if (round !== this.#round) return true;
      if (info !== undefined) this.#journal = info.journal;
    }
    this.#isReady = true;
    this.#isRepeating = false;
    clearTimeout(this.#repeater);
    this.#again.clear();
    this.#sendAll();
    return true;
  }

  /** @returns {Promise<Info | undefined>} undefined if the broker does not let us ask */
  async #whatThereIs() {
    try {
      return await this.#askInfo();
    } catch (error) {
      if (error instanceof Refused) return undefined;
      throw error;
    }
  }

  /**
   * Give up what was sent more than `age` ms ago.
   *
   * @param {string} why
   * @param {number} [age]
   */
  #giveUp(why, age = 0) {
    const last = performance.now() - age;
    this.#failAll(({ sentAt, subject, id }) =>
      sentAt > 0 && sentAt <= last ? new Unconfirmed(why, subject, id) : undefined,
    );
  }

  /**
   * Look in the journal for messages whose ids the broker may have forgotten.
   *
   * @param {Info} info
   * @param {number} round
   */
  async #lookUp(info, round) {
    const { dedupe_window: window = 0, dedupe_ids: ids = 0 } = info.limits;
    const now = performance.now();
    for (const [token, entry] of [...this.#open]) {
      if (entry.sentAt === 0 || !this.#open.has(token)) continue;
      const isFresh = now - entry.sentAt < (window * 1000) / 2;
      if (isFresh && info.last - entry.floor < ids / 2) continue;
      /** @param {string} why */
      const giveUp = (why) => {
        const reason = `it may have been published, or not: ${why}`;
        this.#fail(token, entry, new Unconfirmed(reason, entry.subject, entry.id));
      };
      if (entry.floor + 1 < info.first) {
        giveUp("its place in the journal is deleted");
        continue;
      }
      try {
        const number = await this.#findId(entry.id, entry.subject, entry.floor + 1, info.last);
        if (round !== this.#round) return;
        if (!this.#open.has(token)) continue;
        if (number > 0) this.#settle(token, entry, number);
        else entry.sentAt = 0; // it is surely not there: as if it were new
        entry.isAgain = true;
      } catch (error) {
        if (round !== this.#round || error instanceof ConnectionLost) throw error;
        giveUp(reasonOf(error));
      }
    }
  }

  /**
   * Fail what the broker refuses with an `-ERR`.
   *
   * @param {string} subject
   * @param {string} reason
   */
  refused(subject, reason) {
    this.#failAll((entry) =>
      PREFIX + entry.subject === subject ? new Refused(reason, entry.subject) : undefined,
    );
  }

  /**
   * Fail what is in flight, and everything published from now on.
   *
   * @param {BrokerError} error
   */
  closed(error) {
    this.#closed = error;
    this.#isReady = false;
    this.#round += 1;
    clearTimeout(this.#sweeper);
    clearTimeout(this.#repeater);
    this.#answers?.unsubscribe();
    for (const [token, entry] of [...this.#open, ...this.#waiting]) {
      const why =
        entry.sentAt > 0
          ? `${error.message} before an answer came; it may have been published, or not`
          : `${error.message}; it was not sent`;
      this.#fail(token, entry, new Unconfirmed(why, entry.subject, entry.id));
    }
  }
}

/**
 * @param {Uint8Array | string} payload
 * @returns {Uint8Array} a copy: it may be sent again later
 */
function bytesOf(payload) {
  if (typeof payload === "string") return encoder.encode(payload);
  if (payload instanceof Uint8Array) return payload.slice();
  throw new InvalidArgument("a payload is a string or a Uint8Array");
}

/**
 * @param {HeadersInit | undefined} headers
 * @returns {[string, string | string[]][]}
 */
function headersOf(headers) {
  if (headers === undefined) return [];
  const isIterable = Symbol.iterator in headers;
  return isIterable
    ? [.../** @type {Iterable<[string, string | string[]]>} */ (headers)]
    : Object.entries(headers);
}

/**
 * Return the headers that say what is expected.
 *
 * @param {Expect | number | undefined} expect
 * @returns {[string, string][]}
 */
function expected(expect) {
  if (expect === undefined) return [];
  const wanted = typeof expect === "number" ? { subjectLast: expect } : expect;
  /** @type {[string, string | number | undefined][]} */
  const named = [
    ["Nats-Expected-Last-Sequence", wanted.last],
    ["Nats-Expected-Last-Subject-Sequence", wanted.subjectLast],
    ["Nats-Expected-Last-Subject-Sequence-Subject", wanted.subject],
    ["Nats-Expected-Stream", wanted.stream],
    ["Nats-Expected-Last-Msg-Id", wanted.lastId],
  ];
  return named.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
}

/**
 * Return a header block as it is sent.
 *
 * @param {[string, string | string[]][]} fields
 * @returns {Uint8Array}
 */
function headOf(fields) {
  const lines = ["NATS/1.0"];
  for (const [name, values] of fields) {
    if (!/^[\x21-\x39\x3b-\x7e]+$/.test(name)) {
      throw new InvalidArgument(`${JSON.stringify(name)} cannot be the name of a header`);
    }
    for (const value of [values].flat()) {
      if (typeof value !== "string" || /[\r\n]/.test(value)) {
        throw new InvalidArgument(`${name}: ${JSON.stringify(value)} cannot be a header`);
      }
      lines.push(`${name}: ${value}`);
    }
  }
  return encoder.encode(`${lines.join("\r\n")}\r\n\r\n`);
}
