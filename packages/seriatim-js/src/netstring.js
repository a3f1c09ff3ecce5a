/**
 * Netstrings, and frames of two netstrings: encode, decode, and decode a stream in chunks.
 *
 *     netstring   <length>:<content>,          5:hello,
 *     frame       <length>:<number><payload>,  8:1:1,1:a,,      both children are netstrings
 *
 * Everything has exactly one spelling: a length or a number is ASCII digits without a sign, a blank
 * or a leading zero. A length over the limit is refused before any content is buffered.
 *
 * Numbers are JavaScript numbers, for they are compared, added to and kept as JSON all day. A broker
 * that gives a million numbers a second needs 285 years to come to 2^53. A number beyond it is an
 * error, never a rounded number.
 */

/** The largest payload that a broker may send: the limit of a `FrameDecoder`. */
export const LENGTH_MAX = 64 * 1024 * 1024;

/** The largest number that can be encoded; the largest that is decoded is 2^53 - 1. */
const NUMBER_MAX = 2n ** 64n - 1n;
const DIGITS_MAX = String(NUMBER_MAX).length;
const [COMMA, COLON, ZERO, NINE] = [0x2c, 0x3a, 0x30, 0x39];
const encoder = new TextEncoder();

/** Invalid bytes: where they are, what was expected there, and what was found. */
export class NetstringError extends Error {
  name = "NetstringError";

  /**
   * @param {number} offset
   * @param {string} expected
   * @param {string} got
   */
  constructor(offset, expected, got) {
    super(`at byte ${offset}: expected ${expected}, got ${got}`);
    this.offset = offset;
    this.expected = expected;
    this.got = got;
  }
}

/**
 * Return the frame of `payload` under `number`.
 *
 * @param {number | bigint} number
 * @param {Uint8Array | string} payload
 * @returns {Uint8Array}
 */
export function encodeFrame(number, payload) {
  const content = typeof payload === "string" ? encoder.encode(payload) : payload;
  const digits = digitsOf(number);
  const head = `${digits.length}:${digits},${content.length}:`;
  const start = encoder.encode(`${head.length + content.length + 1}:${head}`);
  const frame = new Uint8Array(start.length + content.length + 2);
  frame.set(start);
  frame.set(content, start.length);
  frame.fill(COMMA, frame.length - 2);
  return frame;
}

/**
 * Return the number and the payload of exactly one frame. The payload is a view: nothing is copied.
 *
 * @param {Uint8Array} frame
 * @returns {{ number: number, payload: Uint8Array }}
 * @throws {NetstringError}
 */
export function decodeFrame(frame) {
  const [start, comma] = only(frame);
  return children(frame.subarray(start, comma), start, Number.MAX_SAFE_INTEGER);
}

/**
 * Return the number in a netstring of digits, the answer to `$SEQ.PUB`: `5:88485,`.
 *
 * @param {Uint8Array} netstring
 * @returns {number}
 * @throws {NetstringError}
 */
export function decodeNumber(netstring) {
  const [start, comma] = only(netstring);
  return readNumber(netstring.subarray(start, comma), start);
}

/**
 * Decodes a stream of frames in chunks of any size, such as a feed of the broker.
 *
 * It holds at most one unfinished frame. After a fault the stream cannot be framed: every later call
 * throws the same error again.
 */
export class FrameDecoder {
  #maxLength;
  #limit;
  /** @type {number[]} of the length that has begun */
  #head = [];
  /** @type {Uint8Array[]} of the content that has begun */
  #parts = [];
  #partsBytes = 0;
  #missing = 0; // bytes of the content that has begun, with its comma; 0: inside a length
  #offset = 0; // of the next byte, from the start of the stream
  /** @type {NetstringError | undefined} */
  #error;

  /** @param {{ maxLength?: number }} [options] `maxLength`: of a payload, in bytes */
  constructor({ maxLength = LENGTH_MAX } = {}) {
    if (!Number.isSafeInteger(maxLength) || maxLength < 0) {
      throw new RangeError(`maxLength is ${maxLength}; give a whole number, 0 or more`);
    }
    this.#maxLength = maxLength;
    this.#limit = `20:${NUMBER_MAX},${maxLength}:,`.length + maxLength;
  }

  /** The count of bytes held of an unfinished frame. */
  get pending() {
    return this.#head.length + this.#partsBytes;
  }

  /**
   * Take in `chunk` now, and return its frames. If it has good frames before a fault, they come
   * first; then the error is thrown.
   *
   * @param {Uint8Array} chunk
   * @returns {Generator<{ number: number, payload: Uint8Array }, void, undefined>}
   */
  feed(chunk) {
    /** @type {{ number: number, payload: Uint8Array }[]} */
    const found = [];
    if (this.#error === undefined) {
      try {
        this.#walk(chunk, found);
      } catch (error) {
        if (!(error instanceof NetstringError)) throw error;
        this.#error = error;
        this.#head = [];
        this.#drop();
      }
      this.#offset += chunk.length;
    }
    return deliver(found, this.#error);
  }

  /** Throw if the stream has ended inside a frame, or the earlier error again. */
  finish() {
    if (this.#error !== undefined) throw this.#error;
    if (this.#missing > 0) throw endsEarly(this.#offset, this.#missing);
    if (this.#head.length > 0) throw new NetstringError(this.#offset, "a digit or ':'", "the end");
  }

  #drop() {
    this.#parts = [];
    this.#partsBytes = 0;
    this.#missing = 0;
  }

  /**
   * @param {Uint8Array} chunk
   * @param {{ number: number, payload: Uint8Array }[]} found
   */
  #walk(chunk, found) {
    let at = 0;
    while (at < chunk.length) {
      if (this.#missing === 0) {
        this.#head.push(chunk[at]);
        at += 1;
        const begun = this.#offset + at - this.#head.length;
        const read = readLength(this.#head, 0, this.#limit, begun);
        if (read === undefined) continue;
        this.#missing = read[0] + 1;
        this.#head = [];
        continue;
      }
      const comma = at + this.#missing - 1;
      if (comma >= chunk.length) {
        this.#parts.push(chunk.slice(at));
        this.#partsBytes += chunk.length - at;
        this.#missing -= chunk.length - at;
        return;
      }
      if (chunk[comma] !== COMMA) {
        throw new NetstringError(this.#offset + comma, "','", seen(chunk[comma]));
      }
      const content = joined([...this.#parts, chunk.slice(at, comma)]);
      this.#drop();
      found.push(children(content, this.#offset + comma - content.length, this.#maxLength));
      at = comma + 1;
    }
  }
}

/**
 * @template Item
 * @param {Item[]} items
 * @param {NetstringError | undefined} error
 * @returns {Generator<Item, void, undefined>}
 */
function* deliver(items, error) {
  yield* items;
  if (error !== undefined) throw error;
}

/**
 * @param {Uint8Array[]} parts
 * @returns {Uint8Array}
 */
function joined(parts) {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/**
 * @param {number | bigint} number
 * @returns {string}
 */
function digitsOf(number) {
  const isExact = typeof number === "bigint" || Number.isSafeInteger(number);
  if (!isExact || number < 0 || number > NUMBER_MAX) {
    throw new RangeError(`${number} is not a whole number from 0 to 2^53 - 1, or a BigInt to 2^64 - 1`);
  }
  return String(number);
}

/**
 * Return where the content of exactly one netstring begins, and where its comma is.
 *
 * @param {Uint8Array} bytes
 * @returns {[number, number]}
 */
function only(bytes) {
  const [start, comma] = span(bytes, 0, Number.MAX_SAFE_INTEGER, 0);
  if (comma + 1 !== bytes.length) {
    throw new NetstringError(comma + 1, "the end", `${bytes.length - comma - 1} bytes more`);
  }
  return [start, comma];
}

/**
 * Return number and payload of a frame's content, which starts at `base` in the input.
 *
 * @param {Uint8Array} content
 * @param {number} base
 * @param {number} limit
 * @returns {{ number: number, payload: Uint8Array }}
 */
function children(content, base, limit) {
  const [digits, end] = span(content, 0, Number.MAX_SAFE_INTEGER, base);
  const number = readNumber(content.subarray(digits, end), base + digits);
  const [start, comma] = span(content, end + 1, limit, base);
  if (comma + 1 !== content.length) {
    const rest = content.length - comma - 1;
    throw new NetstringError(base + comma + 1, "the end of the frame", `${rest} bytes more`);
  }
  return { number, payload: content.subarray(start, comma) };
}

/**
 * Return where the content of the netstring at `at` begins, and where its comma is.
 *
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} limit
 * @param {number} base
 * @returns {[number, number]}
 */
function span(bytes, at, limit, base) {
  const read = readLength(bytes, at, limit, base);
  if (read === undefined) {
    const expected = at < bytes.length ? "a digit or ':'" : "a digit";
    throw new NetstringError(base + bytes.length, expected, "the end");
  }
  const [length, start] = read;
  const comma = start + length;
  if (comma >= bytes.length) throw endsEarly(base + bytes.length, comma + 1 - bytes.length);
  if (bytes[comma] !== COMMA) throw new NetstringError(base + comma, "','", seen(bytes[comma]));
  return [start, comma];
}

/**
 * Return the length at `at` and where its content begins; undefined if the bytes end before.
 *
 * @param {ArrayLike<number>} bytes
 * @param {number} at
 * @param {number} limit
 * @param {number} base
 * @returns {[number, number] | undefined}
 */
function readLength(bytes, at, limit, base) {
  let length = 0;
  for (let place = at; place < bytes.length; place += 1) {
    const byte = bytes[place];
    if (byte >= ZERO && byte <= NINE) {
      if (place > at && length === 0) {
        throw new NetstringError(base + at, "a length without a leading zero", "'0'");
      }
      length = length * 10 + byte - ZERO;
      if (length > limit) {
        throw new NetstringError(base + at, `a length of at most ${limit}`, `${length} or more`);
      }
    } else if (byte === COLON && place > at) {
      return [length, place + 1];
    } else {
      const expected = place > at ? "a digit or ':'" : "a digit";
      throw new NetstringError(base + place, expected, seen(byte));
    }
  }
  return undefined;
}

/**
 * @param {Uint8Array} digits
 * @param {number} offset
 * @returns {number}
 */
function readNumber(digits, offset) {
  let number = 0;
  let isNumber = digits.length > 0 && digits.length <= DIGITS_MAX;
  if (digits.length > 1 && digits[0] === ZERO) isNumber = false;
  for (const byte of digits) {
    if (byte < ZERO || byte > NINE) isNumber = false;
    number = number * 10 + byte - ZERO;
  }
  if (!isNumber || !Number.isSafeInteger(number)) {
    const got = JSON.stringify(String.fromCharCode(...digits.subarray(0, 24)));
    throw new NetstringError(offset, "a decimal number from 0 to 2^53 - 1", got);
  }
  return number;
}

/**
 * @param {number} offset
 * @param {number} missing
 */
function endsEarly(offset, missing) {
  return new NetstringError(offset, `${missing} bytes more, the last of them ','`, "the end");
}

/** @param {number} byte */
function seen(byte) {
  return JSON.stringify(String.fromCharCode(byte));
}
