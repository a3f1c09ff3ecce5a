/**
 * Reads the stream: the past, then live messages, each number once, over any number of breaks.
 *
 *     take    hands over what has arrived; at half of the bound it asks for more
 *     check   after a break: is it still the same journal? `$SEQ.INFO`, and our last message
 *     ask     `SUB $SEQ.FROM.<next>.<subject>`, for as many messages as may wait here
 *
 * A NATS client keeps what it has received until it is taken, however much that is. So a reader asks
 * for a number of messages (`UNSUB <sid> <max>`), guessed from the size of the last ones, and asks
 * again when half of them are taken. If they turn out to be much larger, it unsubscribes in the
 * middle, and asks again from there. At most `HELD_MAX` bytes and one message wait.
 *
 * On a break the subscription is given up before the client can repeat its SUB line. Messages of an
 * old one cannot come any more, and a number that was seen is skipped all the same.
 */

import {
  ConnectionLost,
  InvalidArgument,
  JournalChanged,
  Lost,
  NoAnswer,
  NotFound,
  Refused,
} from "./errors.js";
import { checked, nothing, reasonOf } from "./link.js";
import { received, stored } from "./message.js";
import { PositionFile, readPosition } from "./position.js";

const HELD_TARGET = 1 << 20; // bytes asked for at a time
const HELD_MAX = 4 << 20; // bytes that wait, before the rest is left to the broker
const MESSAGE_COST = 256; // bytes, beside the payload
const [ASKED_FIRST, ASKED_MAX] = [256, 8192]; // messages at a time
const FETCHED = 64; // single messages at a time
const ANSWER_MS = 10_000;
const [BEHIND_MS, BEHIND_STEP_MS] = [5000, 100]; // for a member to come up to another one
const RETRY_MS = 200;

/**
 * @typedef {import("./errors.js").Position} Position
 * @typedef {import("./link.js").Link} Link
 * @typedef {import("./message.js").Message} Message
 * @typedef {import("./message.js").NativeMessage} NativeMessage
 * @typedef {import("./position.js").PositionKeeper} PositionKeeper
 */

/**
 * Where to begin, where to end, and what to do on the way; of `start`, `since` and `last` only one.
 *
 * @typedef {object} ReadOptions
 * @property {number | Position} [start] this number, or behind this position
 * @property {Date | number} [since] the first message at or after this time; ms since 1970
 * @property {boolean} [last] the last message of each subject that matches, then live
 * @property {number | "now"} [until] the last number to be read, or the last there is
 * @property {boolean} [orNow] what is published from now on, if no position is known
 * @property {string | PositionKeeper} [position] a file, or two functions: reading begins behind
 *     the position that is kept there, and keeps it up to date
 * @property {"raise" | "yield"} [losses] whether `Lost` and `JournalChanged` are thrown, or items
 * @property {AbortSignal} [signal] ends the reading; its reason is thrown
 */

/**
 * Check what a user wants to read.
 *
 * @param {string} subject
 * @param {ReadOptions} options
 */
function checkWish(subject, { start, since, last, until, orNow, losses }) {
  checkSubject(subject);
  if (Number(start !== undefined) + Number(since !== undefined) + Number(Boolean(last)) > 1) {
    throw new InvalidArgument("give one of start, since and last: each says where to begin");
  }
  if (last && until !== undefined) {
    throw new InvalidArgument("last goes on with live messages, so it cannot have until");
  }
  if (orNow && (since !== undefined || last || typeof start === "number")) {
    throw new InvalidArgument("orNow is for a position that may not be there yet");
  }
  for (const [name, number] of Object.entries({ start, until })) {
    if (typeof number === "number" && !(Number.isSafeInteger(number) && number >= 1)) {
      throw new InvalidArgument(`${name} is ${number}: the first number is 1`);
    }
  }
  if (typeof until === "string" && until !== "now") {
    throw new InvalidArgument(`until is "${until}": give a number or "now"`);
  }
  if (losses !== undefined && losses !== "raise" && losses !== "yield") {
    throw new InvalidArgument(`losses is "${losses}": give "raise" or "yield"`);
  }
  if (since !== undefined && !(Number(since) >= 0)) {
    throw new InvalidArgument("since is no time: give a Date, or milliseconds since 1970");
  }
}

/** @param {string} subject */
export function checkSubject(subject) {
  // eslint-disable-next-line no-control-regex
  if (typeof subject !== "string" || subject === "" || /[\s\x00-\x1f\x7f]/.test(subject)) {
    throw new InvalidArgument(`${JSON.stringify(subject)} is no subject`);
  }
  if (subject.length > 2048) {
    throw new InvalidArgument(`${JSON.stringify(subject.slice(0, 40))}... is too long for a subject`);
  }
}

/**
 * The messages of a `read`: `for await (const message of reader)`, and where it has got to.
 *
 * Leaving the loop frees everything, in whichever way. A loss that is thrown frees everything, too;
 * another loop over the same reader goes on behind it.
 *
 * @template {Message | Lost | JournalChanged} Item
 * @implements {AsyncIterableIterator<Item>}
 */
export class Reader {
  #link;
  #subject;
  /** @type {ReadOptions} */
  #wish;
  #yields;
  #signal;
  /** @type {PositionKeeper | PositionFile | undefined} */
  #keeper;
  #isLoaded = false;

  // What was handed over
  #journal = "";
  #epoch = 0;
  #reached = 0;
  #reachedTime = "";
  /** @type {Message | undefined} */
  #lastMessage;
  #isNoted = true;

  // What has arrived
  #arrived = 0; // the number up to which everything has
  #isPlaced = false; // it is clear where to go on: behind `#arrived`
  /** @type {(Message | Lost | undefined)[]} */
  #items = [];
  #taken = 0;
  #held = 0;
  /** @type {number[]} last messages of subjects, to be fetched one by one */
  #later = [];
  #until = 0;
  #isFinished = false; // nothing more will arrive
  /** @type {unknown} with which it ends, when what has arrived is taken */
  #failure;

  // The connection
  #isListening = false;
  #isChecked = false; // it is the same journal, since the last break
  /** @type {import("./link.js").NativeSubscription | undefined} */
  #subscription;
  #asksLast = false; // the subscription is one to `$SEQ.LAST`
  #asked = ASKED_FIRST;
  #got = 0;
  #gotBytes = 0;
  #lastBefore = 0; // the journal's last number, before `$SEQ.LAST` was asked

  #isEnded = false; // by the user
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();
  /** @type {() => void} */
  #wake = nothing;
  /** @type {Set<(error: unknown) => void>} of all that is waited for, but messages */
  #cancels = new Set();
  #listener = {
    up: () => this.#wake(),
    down: () => this.#down(),
    closed: (/** @type {ConnectionLost} */ error, /** @type {boolean} */ isFailure) => {
      this.#drop();
      if (isFailure) this.#failure ??= error;
      else this.#isFinished = true;
      this.#wake();
    },
  };
  #abort = () => {
    this.#end();
  };

  /**
   * @param {Link} link
   * @param {string} subject
   * @param {ReadOptions} options
   */
  constructor(link, subject, options) {
    checkWish(subject, options);
    this.#link = link;
    this.#subject = subject;
    this.#wish = options;
    this.#yields = options.losses === "yield";
    this.#signal = options.signal;
    this.#until = typeof options.until === "number" ? options.until : 0;
    const { position, start } = options;
    this.#keeper = typeof position === "string" ? new PositionFile(position) : position;
    if (typeof start === "object") this.#beginAt(readPosition(start));
  }

  /** @param {Position | undefined} position */
  #beginAt(position) {
    if (position === undefined || position.journal === "") return;
    this.#journal = position.journal;
    this.#reached = this.#arrived = position.number;
    this.#reachedTime = position.time ?? "";
    this.#isPlaced = true;
  }

  /** The place behind what was handed over last; to be kept with its effect. */
  get position() {
    /** @type {Position} */
    const position = { journal: this.#journal, number: this.#reached };
    if (this.#reachedTime) position.time = this.#reachedTime;
    return position;
  }

  /** @returns {this} */
  [Symbol.asyncIterator]() {
    return this;
  }

  /**
   * Return the next item; what was handed over before has been processed.
   *
   * @returns {Promise<IteratorResult<Item, undefined>>}
   */
  next() {
    const turn = this.#turn.then(() => this.#next());
    this.#turn = turn.catch(nothing);
    return turn;
  }

  /**
   * End the reading, in any state: `break` does it. What was handed over last is not noted as
   * processed, for an exception ends a loop in the same way: call `done()` before a `break`.
   *
   * @returns {Promise<IteratorResult<Item, undefined>>}
   */
  async return() {
    this.#end();
    await this.#flush();
    return { value: undefined, done: true };
  }

  /** Note that what was handed over last has been processed, without asking for the next. */
  async done() {
    if (!this.#isNoted && this.#keeper !== undefined) {
      await this.#keeper.save(this.position);
    }
    this.#isNoted = true;
  }

  async #flush() {
    if (this.#keeper instanceof PositionFile) await this.#keeper.flush();
  }

  /** @returns {Promise<IteratorResult<Item, undefined>>} */
  async #next() {
    try {
      if (!this.#isEnded || this.#signal?.aborted) await this.done();
      this.#signal?.throwIfAborted();
      if (!this.#isEnded) this.#listen();
      const item = await this.#take();
      this.#signal?.throwIfAborted();
      if (item === undefined) return await this.return();
      this.#handOver(item);
      if (!this.#yields && (item instanceof Lost || item instanceof JournalChanged)) throw item;
      return { value: /** @type {Item} */ (item), done: false };
    } catch (error) {
      if (this.#signal?.aborted) this.#end();
      else this.#pause();
      await this.#flush().catch(nothing); // what it has not written is read again
      throw this.#signal?.aborted ? this.#signal.reason : error;
    }
  }

  #listen() {
    if (this.#isListening) return;
    this.#isListening = true;
    this.#signal?.addEventListener("abort", this.#abort, { once: true });
    if (this.#link.isClosed) {
      const why = this.#link.error ? `: ${this.#link.error.message}` : "";
      this.#failure = new ConnectionLost(`the connection is closed${why}`);
    } else {
      this.#link.add(this.#listener);
    }
  }

  /** @param {Message | Lost | JournalChanged} item */
  #handOver(item) {
    this.#isNoted = false;
    if (item instanceof JournalChanged) return;
    const isLost = item instanceof Lost;
    this.#reached = isLost ? item.last : item.number;
    this.#reachedTime = isLost ? "" : item.time;
    this.#lastMessage = isLost ? undefined : item;
  }

  /** Free everything, and be ready to go on behind what was handed over. */
  #pause() {
    this.#link.remove(this.#listener);
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#isListening = this.#isChecked = false;
    this.#drop();
    this.#items = [];
    this.#taken = this.#held = 0;
    this.#arrived = this.#reached;
    this.#isFinished = false;
    this.#failure = undefined;
  }

  #end() {
    this.#isEnded = true;
    this.#pause();
    for (const cancel of [...this.#cancels]) cancel(new ConnectionLost("the reading was ended"));
    this.#wake();
  }

  /** Unsubscribe; what has arrived stays. */
  #drop() {
    const subscription = this.#subscription;
    this.#subscription = undefined;
    if (this.#later.length > 0) this.#arrived = this.#later[0] - 1;
    this.#later = [];
    subscription?.unsubscribe();
  }

  #down() {
    this.#isChecked = false;
    this.#drop();
    this.#wake();
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#failure ??= error;
    this.#drop();
    this.#wake();
  }

  /** @returns {Promise<void>} when something has changed */
  #changed() {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  // Taking

  /** @returns {Promise<Message | Lost | JournalChanged | undefined>} undefined at the end */
  async #take() {
    if (!this.#isLoaded) {
      if (this.#keeper !== undefined) this.#beginAt(readPosition(await this.#keeper.load()));
      this.#isLoaded = true;
    }
    for (;;) {
      if (this.#isEnded) return undefined;
      if (this.#taken < this.#items.length) return this.#shift();
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#later.length > 0) await this.#fetch();
      else if (this.#isFinished) return undefined;
      else if (this.#subscription !== undefined || !this.#link.isUp) await this.#changed();
      else if (this.#isChecked) this.#subscribe();
      else {
        const change = await this.#check();
        if (change !== undefined) return change;
      }
    }
  }

  #shift() {
    const item = this.#items[this.#taken];
    this.#items[this.#taken] = undefined;
    this.#taken += 1;
    if (this.#taken === this.#items.length) {
      this.#items = [];
      this.#taken = 0;
    }
    this.#held -= costOf(item);
    this.#refill();
    return item;
  }

  /** Ask for more, if there is room and nothing to be found out first. */
  #refill() {
    const isWanted = this.#subscription === undefined && this.#held <= HELD_TARGET / 2;
    const canAsk = this.#isChecked && this.#isPlaced && this.#link.isUp && this.#later.length === 0;
    if (isWanted && canAsk && !this.#isFinished && this.#failure === undefined) this.#subscribe();
  }

  /** Fetch the next of the last messages that were too many to wait here. */
  async #fetch() {
    const numbers = this.#later.slice(0, FETCHED);
    try {
      const found = await Promise.all(
        numbers.map((number) => this.#message(number).catch((error) => missing(error, number))),
      );
      if (this.#later.length === 0) return; // dropped meanwhile
      this.#later.splice(0, numbers.length);
      for (const item of found) this.#push(item);
    } catch (error) {
      if (!(error instanceof ConnectionLost || error instanceof NoAnswer)) throw error;
      this.#isChecked = false;
      this.#drop();
    }
  }

  /**
   * @param {number} number
   * @returns {Promise<Message>}
   */
  async #message(number) {
    const subject = `$SEQ.GET.${number}`;
    const answer = await this.#link.askOnce(subject, ANSWER_MS, this.#cancels);
    return stored(checked(answer, subject), this.#link.frame);
  }

  // The journal

  /** @returns {Promise<JournalChanged | undefined>} a change that the user must know of */
  async #check() {
    try {
      this.#link.checkNumbers();
      const info = await this.#sameJournal();
      if (info instanceof JournalChanged) {
        this.#forget(info);
        return info;
      }
      if (this.#wish.until === "now") {
        this.#until ||= info.last;
        if (this.#until === 0) this.#isFinished = true;
      }
      if (!this.#isPlaced) await this.#place(info);
      this.#isChecked = true;
    } catch (error) {
      if (this.#isEnded) return undefined;
      if (!(error instanceof ConnectionLost || error instanceof NoAnswer)) throw error;
      if (this.#link.isUp) await this.#delay(RETRY_MS);
    }
    return undefined;
  }

  /** @param {JournalChanged} change */
  #forget(change) {
    this.#journal = change.now.journal;
    this.#epoch = this.#reached = this.#arrived = this.#until = 0;
    this.#reachedTime = "";
    this.#lastMessage = undefined;
    this.#isPlaced = false;
    this.#wish = { until: this.#wish.until === "now" ? "now" : undefined };
  }

  /** @returns {Promise<Info | JournalChanged>} */
  async #sameJournal() {
    const patientUntil = performance.now() + BEHIND_MS;
    let info = await this.#info();
    // A member of a cluster may be behind another one, which we have read from.
    while (
      info.journal === this.#journal &&
      info.last < this.#arrived &&
      performance.now() < patientUntil
    ) {
      await this.#delay(BEHIND_STEP_MS);
      info = await this.#info();
    }
    if (this.#journal && this.#arrived > 0) {
      let isSame = info.journal === this.#journal && info.last >= this.#arrived;
      if (isSame && info.epoch !== this.#epoch) isSame = await this.#isSameMessage();
      if (!isSame) {
        const now = { journal: info.journal, number: info.last };
        return new JournalChanged(this.position, now);
      }
    }
    this.#journal = info.journal;
    this.#epoch = info.epoch;
    return info;
  }

  /** True unless our last number is another message now: the journal lost its end, and grew again. */
  async #isSameMessage() {
    if (this.#lastMessage === undefined && !this.#reachedTime) return true;
    try {
      const found = await this.#message(this.#reached);
      if (this.#reachedTime) return found.time === this.#reachedTime;
      const seen = this.#lastMessage;
      return seen === undefined || (found.subject === seen.subject && isEqual(found, seen));
    } catch (error) {
      if (error instanceof Refused) return true; // deleted by now, or not ours to read
      throw error;
    }
  }

  /** @returns {Promise<Info>} */
  async #info() {
    const answer = await this.#link.askOnce("$SEQ.INFO", ANSWER_MS, this.#cancels);
    return JSON.parse(new TextDecoder().decode(checked(answer, "$SEQ.INFO").data));
  }

  /**
   * Find out where to begin.
   *
   * @param {Info} info
   */
  async #place(info) {
    const { start, since, last, orNow } = this.#wish;
    this.#lastBefore = info.last;
    if (last || (since !== undefined && this.#until === 0)) return;
    let first = orNow ? info.last + 1 : Math.max(info.first, 1);
    if (typeof start === "number") first = start;
    if (since !== undefined) first = await this.#firstSince(Math.floor(Number(since)), info);
    this.#reached = this.#arrived = first - 1;
    this.#isPlaced = true;
  }

  /**
   * Return the number of the first message, on any subject, at or after a time.
   *
   * @param {number} ms
   * @param {Info} info
   * @returns {Promise<number>}
   */
  #firstSince(ms, info) {
    if (info.last === 0 || info.newest < ms) return Promise.resolve(info.last + 1);
    return new Promise((resolve, reject) => {
      /** @param {unknown} error */
      const end = (error) => {
        clearTimeout(timer);
        this.#link.remove(listener);
        this.#cancels.delete(end);
        subscription?.unsubscribe();
        reject(error);
      };
      const broken = new ConnectionLost("the connection broke");
      const listener = { up: nothing, down: () => end(broken), closed: end };
      const timer = setTimeout(() => end(new NoAnswer("$SEQ.SINCE: no answer in time")), ANSWER_MS);
      this.#link.add(listener);
      this.#cancels.add(end);
      /** @type {import("./link.js").NativeSubscription | undefined} */
      let subscription;
      /** @param {unknown} error @param {NativeMessage} message */
      const callback = (error, message) => {
        try {
          if (error) throw new Refused(reasonOf(error), this.#subject);
          const [, kind, lost] = message.subject.startsWith("$SEQ.") ? message.subject.split(".") : [];
          resolve(kind === "LOST" ? Number(lost) : received(message, this.#link.frame).number);
          end(undefined);
        } catch (problem) {
          end(problem);
        }
      };
      try {
        subscription = this.#link.connection.subscribe(`$SEQ.SINCE.${ms}.>`, { max: 1, callback });
      } catch (error) {
        end(new ConnectionLost(reasonOf(error), { cause: error }));
      }
    });
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>}
   */
  #delay(ms) {
    return new Promise((resolve, reject) => {
      /** @param {unknown} [error] */
      const end = (error) => {
        clearTimeout(timer);
        this.#cancels.delete(end);
        error === undefined ? resolve() : reject(error);
      };
      const timer = setTimeout(end, ms);
      this.#cancels.add(end);
    });
  }

  // The subscription

  #subscribe() {
    const subject = this.#whatToAsk();
    if (subject === "") {
      this.#isFinished = true;
      return;
    }
    if (this.#got > 0) {
      const each = this.#gotBytes / this.#got;
      this.#asked = Math.min(Math.max(Math.round(HELD_TARGET / each), 1), ASKED_MAX);
    }
    this.#got = this.#gotBytes = 0;
    const max = this.#asksLast ? undefined : this.#asked;
    try {
      const subscription = this.#link.connection.subscribe(subject, {
        max,
        callback: (/** @type {unknown} */ error, /** @type {NativeMessage} */ message) => {
          if (subscription === this.#subscription) this.#receive(error, message);
        },
      });
      this.#subscription = subscription;
    } catch (error) {
      if (this.#link.isUp) this.#fail(new ConnectionLost(reasonOf(error), { cause: error }));
    }
  }

  #whatToAsk() {
    const { since, last } = this.#wish;
    this.#asksLast = !this.#isPlaced && Boolean(last);
    if (this.#asksLast) return `$SEQ.LAST.${this.#subject}`;
    if (!this.#isPlaced) return `$SEQ.SINCE.${Math.floor(Number(since))}.${this.#subject}`;
    const first = this.#arrived + 1;
    if (this.#until === 0) return `$SEQ.FROM.${first}.${this.#subject}`;
    return first > this.#until ? "" : `$SEQ.RANGE.${first}.${this.#until}.${this.#subject}`;
  }

  /**
   * Take what the subscription has received.
   *
   * @param {unknown} error
   * @param {NativeMessage} message
   */
  #receive(error, message) {
    if (error) {
      this.#subscription = undefined; // the client has dropped it
      this.#fail(new Refused(reasonOf(error), this.#subject));
      return;
    }
    try {
      if (message.subject.startsWith("$SEQ.")) this.#acceptOwn(message.subject.split("."));
      else this.#accept(message);
    } catch (problem) {
      this.#fail(problem);
      return;
    }
    this.#got += 1;
    if (this.#subscription !== undefined && !this.#asksLast) {
      if (this.#got >= this.#asked) this.#subscription = undefined; // the client unsubscribes
      else if (this.#held > HELD_MAX) this.#drop();
    }
    this.#refill();
    this.#wake();
  }

  /** @param {NativeMessage} native */
  #accept(native) {
    const message = received(native, this.#link.frame);
    if (message.number <= this.#arrived) return;
    this.#gotBytes += costOf(message);
    if (this.#asksLast && (this.#later.length > 0 || this.#held > HELD_MAX)) {
      if (message.number <= this.#lastBefore) {
        this.#later.push(message.number);
        this.#arrived = message.number;
      } else {
        this.#goOnLater();
      }
      return;
    }
    this.#arrived = message.number;
    this.#isPlaced = true;
    this.#push(message);
  }

  /**
   * Live messages have come, and there is no room for them: ask for them when what waits is taken.
   */
  #goOnLater() {
    const later = this.#later;
    this.#drop();
    this.#later = later;
    this.#arrived = Math.max(this.#arrived, this.#lastBefore);
    this.#asksLast = false;
  }

  /** @param {string[]} words of a subject: `$SEQ.LOST.<first>.<last>`, `$SEQ.END.<last>` */
  #acceptOwn(words) {
    this.#gotBytes += MESSAGE_COST;
    if (words[1] === "END") {
      this.#isFinished = true;
      this.#drop();
    } else if (words[1] === "LOST") {
      const first = Math.max(Number(words[2]), this.#arrived + 1);
      const last = Number(words[3]);
      if (last < first) return;
      this.#arrived = last;
      this.#isPlaced = true;
      this.#push(new Lost(first, last));
    }
  }

  /** @param {Message | Lost} item */
  #push(item) {
    this.#items.push(item);
    this.#held += costOf(item);
  }
}

/** @param {Message | Lost | undefined} item */
function costOf(item) {
  if (item === undefined || item instanceof Lost) return MESSAGE_COST;
  return item.size + MESSAGE_COST;
}

/**
 * Return what stands for a message that has been deleted meanwhile.
 *
 * @param {unknown} error
 * @param {number} number
 */
function missing(error, number) {
  if (error instanceof NotFound) return new Lost(number, number);
  throw error;
}

/**
 * @param {Message} one
 * @param {Message} other
 */
function isEqual(one, other) {
  return (
    one.payload.length === other.payload.length &&
    one.payload.every((byte, at) => byte === other.payload[at])
  );
}

/**
 * What the broker keeps: the answer to `$SEQ.INFO`. Times are milliseconds since 1970.
 *
 * @typedef {object} Info
 * @property {string} journal the id of the journal; with another one, number 7 is another message
 * @property {number} epoch how many times the journal was opened
 * @property {number} first the first number that can be read; `last` + 1 if there is none
 * @property {number} last the last number that was given; 0 if none was
 * @property {number} messages
 * @property {number} bytes
 * @property {number} oldest
 * @property {number} newest
 * @property {number} time the broker's clock
 * @property {"disk" | "memory" | "none"} store
 * @property {string} sync when a message is on disk: always, interval or never
 * @property {boolean} full publishers are refused: the disk, or what is kept, is full
 * @property {boolean} restricted the user's rights hide some messages
 * @property {Record<string, number>} limits
 */
