/** A message as it is read: `number`, `subject`, `reply`, `headers`, `payload`, `time`. */

import { BrokerError, NotSeriatim } from "./errors.js";
import { decodeFrame } from "./netstring.js";

const NUMBER = "Nats-Sequence";
const TIME = "Nats-Time-Stamp";
const SUBJECT = "Nats-Subject";
const decoder = new TextDecoder();

/** A numbered message. */
export class Message {
  #native;

  /**
   * @param {number} number
   * @param {string} subject
   * @param {Uint8Array} payload
   * @param {string} time
   * @param {NativeMessage} native
   */
  constructor(number, subject, payload, time, native) {
    this.number = number;
    this.subject = subject;
    this.payload = payload;
    /** When it was published, such as `2026-01-31T12:00:00.123456789Z`; "" if the frame has no time. */
    this.time = time;
    this.#native = native;
  }

  /** The subject on which an answer is expected, or "". */
  get reply() {
    return this.#native.subject === this.subject ? (this.#native.reply ?? "") : "";
  }

  /**
   * The headers, as the NATS client has read them; undefined if there are none.
   *
   * @returns {NativeHeaders | undefined}
   */
  get headers() {
    const headers = this.#native.headers;
    return headers !== undefined && headers.keys().length > 0 ? headers : undefined;
  }

  /** How many bytes it was on the wire: subject, headers and payload. */
  get size() {
    return this.#native.size();
  }

  /** The payload as text, from UTF-8. */
  text() {
    return decoder.decode(this.payload);
  }

  /**
   * The payload as a value, from JSON.
   *
   * @returns {any}
   */
  json() {
    return JSON.parse(this.text());
  }
}

/**
 * Return the message that a subscription has received.
 *
 * @param {NativeMessage} native
 * @param {string} frame that of the connection
 * @returns {Message}
 */
export function received(native, frame) {
  if (frame === "netstring") {
    const { number, payload } = decodeFrame(native.data);
    return new Message(number, native.subject, payload, "", native);
  }
  const { headers, data, subject } = native;
  return new Message(readNumber(headers, subject), subject, data, headers?.get(TIME) ?? "", native);
}

/**
 * Return the message in an answer to `$SEQ.GET` or `$SEQ.LAST`.
 *
 * @param {NativeMessage} answer
 * @param {string} frame
 * @returns {Message}
 */
export function stored(answer, frame) {
  const headers = answer.headers;
  const number = readNumber(headers, answer.subject);
  const subject = headers?.get(SUBJECT) ?? "";
  const time = headers?.get(TIME) ?? "";
  for (const name of [SUBJECT, NUMBER, TIME]) headers?.delete(name);
  const payload = frame === "netstring" ? decodeFrame(answer.data).payload : answer.data;
  return new Message(number, subject, payload, time, answer);
}

/**
 * @param {NativeHeaders | undefined} headers
 * @param {string} subject
 * @returns {number}
 */
function readNumber(headers, subject) {
  const digits = headers?.get(NUMBER) ?? "";
  if (!/^[1-9][0-9]{0,18}$/.test(digits)) {
    throw new NotSeriatim(`a message to ${subject} has no number: give the frame of the connection`);
  }
  const number = Number(digits);
  if (!Number.isSafeInteger(number)) throw new BrokerError(`the number ${digits} is beyond 2^53 - 1`);
  return number;
}

/**
 * The headers of a message, as both npm clients have them.
 *
 * @typedef {object} NativeHeaders
 * @property {number} code
 * @property {string} description
 * @property {(name: string) => string} get
 * @property {(name: string) => boolean} has
 * @property {(name: string) => string[]} values
 * @property {() => string[]} keys
 * @property {(name: string) => void} delete
 */

/**
 * A message, as both npm clients have it.
 *
 * @typedef {object} NativeMessage
 * @property {string} subject
 * @property {string} [reply]
 * @property {NativeHeaders} [headers]
 * @property {Uint8Array} data
 * @property {() => number} size
 */
