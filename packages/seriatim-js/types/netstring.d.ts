/**
 * Return the frame of `payload` under `number`.
 *
 * @param {number | bigint} number
 * @param {Uint8Array | string} payload
 * @returns {Uint8Array}
 */
export function encodeFrame(number: number | bigint, payload: Uint8Array | string): Uint8Array;
/**
 * Return the number and the payload of exactly one frame. The payload is a view: nothing is copied.
 *
 * @param {Uint8Array} frame
 * @returns {{ number: number, payload: Uint8Array }}
 * @throws {NetstringError}
 */
export function decodeFrame(frame: Uint8Array): {
    number: number;
    payload: Uint8Array;
};
/**
 * Return the number in a netstring of digits, the answer to `$SEQ.PUB`: `5:88485,`.
 *
 * @param {Uint8Array} netstring
 * @returns {number}
 * @throws {NetstringError}
 */
export function decodeNumber(netstring: Uint8Array): number;
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
export const LENGTH_MAX: number;
/** Invalid bytes: where they are, what was expected there, and what was found. */
export class NetstringError extends Error {
    /**
     * @param {number} offset
     * @param {string} expected
     * @param {string} got
     */
    constructor(offset: number, expected: string, got: string);
    offset: number;
    expected: string;
    got: string;
}
/**
 * Decodes a stream of frames in chunks of any size, such as a feed of the broker.
 *
 * It holds at most one unfinished frame. After a fault the stream cannot be framed: every later call
 * throws the same error again.
 */
export class FrameDecoder {
    /** @param {{ maxLength?: number }} [options] `maxLength`: of a payload, in bytes */
    constructor({ maxLength }?: {
        maxLength?: number;
    });
    /** The count of bytes held of an unfinished frame. */
    get pending(): number;
    /**
     * Take in `chunk` now, and return its frames. If it has good frames before a fault, they come
     * first; then the error is thrown.
     *
     * @param {Uint8Array} chunk
     * @returns {Generator<{ number: number, payload: Uint8Array }, void, undefined>}
     */
    feed(chunk: Uint8Array): Generator<{
        number: number;
        payload: Uint8Array;
    }, void, undefined>;
    /** Throw if the stream has ended inside a frame, or the earlier error again. */
    finish(): void;
    #private;
}
