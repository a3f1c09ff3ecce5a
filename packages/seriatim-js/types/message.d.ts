/**
 * Return the message that a subscription has received.
 *
 * @param {NativeMessage} native
 * @param {string} frame that of the connection
 * @returns {Message}
 */
export function received(native: NativeMessage, frame: string): Message;
/**
 * Return the message in an answer to `$SEQ.GET` or `$SEQ.LAST`.
 *
 * @param {NativeMessage} answer
 * @param {string} frame
 * @returns {Message}
 */
export function stored(answer: NativeMessage, frame: string): Message;
/** A numbered message. */
export class Message {
    /**
     * @param {number} number
     * @param {string} subject
     * @param {Uint8Array} payload
     * @param {string} time
     * @param {NativeMessage} native
     */
    constructor(number: number, subject: string, payload: Uint8Array, time: string, native: NativeMessage);
    number: number;
    subject: string;
    payload: Uint8Array<ArrayBufferLike>;
    /** When it was published, such as `2026-01-31T12:00:00.123456789Z`; "" if the frame has no time. */
    time: string;
    /** The subject on which an answer is expected, or "". */
    get reply(): string;
    /**
     * The headers, as the NATS client has read them; undefined if there are none.
     *
     * @returns {NativeHeaders | undefined}
     */
    get headers(): NativeHeaders | undefined;
    /** How many bytes it was on the wire: subject, headers and payload. */
    get size(): number;
    /** The payload as text, from UTF-8. */
    text(): string;
    /**
     * The payload as a value, from JSON.
     *
     * @returns {any}
     */
    json(): any;
    #private;
}
/**
 * The headers of a message, as both npm clients have them.
 */
export type NativeHeaders = {
    code: number;
    description: string;
    get: (name: string) => string;
    has: (name: string) => boolean;
    values: (name: string) => string[];
    keys: () => string[];
    delete: (name: string) => void;
};
/**
 * A message, as both npm clients have it.
 */
export type NativeMessage = {
    subject: string;
    reply?: string | undefined;
    headers?: NativeHeaders | undefined;
    data: Uint8Array;
    size: () => number;
};
