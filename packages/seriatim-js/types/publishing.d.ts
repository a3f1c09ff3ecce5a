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
    /**
     * @param {Link} link
     * @param {() => Promise<Info>} askInfo
     * @param {(id: string, subject: string, first: number, last: number) => Promise<number>} findId
     *     returns the number of the message with this id, or 0
     */
    constructor(link: Link, askInfo: () => Promise<Info>, findId: (id: string, subject: string, first: number, last: number) => Promise<number>);
    /**
     * Publish a message when there is room, and return its number.
     *
     * @param {string} subject
     * @param {Uint8Array | string} payload
     * @param {PublishOptions} options
     * @returns {Promise<number>}
     */
    publish(subject: string, payload: Uint8Array | string, { headers, id, expect, timeout }: PublishOptions): Promise<number>;
    /** Keep what is in flight, for the next connection. */
    down(): void;
    /** Send what is kept, in its order; what may be there already is looked for first. */
    up(): void;
    /**
     * Fail what the broker refuses with an `-ERR`.
     *
     * @param {string} subject
     * @param {string} reason
     */
    refused(subject: string, reason: string): void;
    /**
     * Fail what is in flight, and everything published from now on.
     *
     * @param {BrokerError} error
     */
    closed(error: BrokerError): void;
    #private;
}
/**
 * What must hold when a message gets its number; otherwise it is refused, and has none.
 */
export type Expect = {
    /**
     * the last number of the stream that holds the subject, or of the journal
     */
    last?: number | undefined;
    /**
     * the last number of its subject, or of those that match `subject`;
     * 0: there is none yet. This one, and `lastId`, need a stream (`serve -js`)
     */
    subjectLast?: number | undefined;
    subject?: string | undefined;
    /**
     * the name of the stream that holds the subject
     */
    stream?: string | undefined;
    /**
     * the `id` of the last message of that stream
     */
    lastId?: string | undefined;
};
/**
 * Headers: an object, a `Map`, or those of a NATS client.
 */
export type HeadersInit = Record<string, string | string[]> | Iterable<[string, string | string[]]>;
export type PublishOptions = {
    headers?: HeadersInit | undefined;
    /**
     * yours, such as the id of an order: a message with an id that was published
     * in the last minutes returns the number of that one
     */
    id?: string | undefined;
    /**
     * publish only if this is the last number of the subject
     */
    expect?: number | Expect | undefined;
    /**
     * in ms; 60 000
     */
    timeout?: number | undefined;
};
export type OpenMessage = {
    subject: string;
    id: string;
    payload: Uint8Array;
    /**
     * the headers as they are sent
     */
    head: Uint8Array;
    deadline: number;
    /**
     * the first time; 0: not yet
     */
    sentAt: number;
    /**
     * it was sent before; the answer to that may be lost
     */
    isAgain: boolean;
    /**
     * why a cluster has refused it so far
     */
    notYet: string;
    /**
     * its number is above this one
     */
    floor: number;
    resolve: (number: number) => void;
    reject: (error: BrokerError) => void;
};
export type Link = import("./link.js").Link;
export type NativeMessage = import("./message.js").NativeMessage;
export type Info = import("./reading.js").Info;
import { BrokerError } from "./errors.js";
