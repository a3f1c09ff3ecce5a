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
export function connect(options?: {
    servers?: string | string[];
    [option: string]: any;
}, connectNats?: ConnectNats): Promise<Client>;
/** A client over one connection. */
export class Client {
    /**
     * Use this connection. `frame` is that of its CONNECT option, if it has one; otherwise the listener
     * says which it is. `close` leaves the connection open, unless `closesConnection` is true.
     *
     * @param {NatsConnectionLike} connection
     * @param {{ frame?: "netstring" | "header" | "stamp", inboxPrefix?: string,
     *     closesConnection?: boolean }} [options]
     */
    constructor(connection: NatsConnectionLike, options?: {
        frame?: "netstring" | "header" | "stamp";
        inboxPrefix?: string;
        closesConnection?: boolean;
    });
    /** The connection of the NATS client. */
    get connection(): import("./link.js").NatsConnectionLike;
    /** True if nothing more can be done with it: it was closed, or the connection was. */
    get isClosed(): boolean;
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
    publish(subject: string, payload?: Uint8Array | string, options?: PublishOptions): Promise<number>;
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
    read(subject: string, options: ReadOptions & {
        losses: "yield";
    }): Reader<Message | Lost | JournalChanged>;
    /**
     * @overload
     * @param {string} [subject]
     * @param {ReadOptions} [options]
     * @returns {Reader<Message>}
     */
    read(subject?: string | undefined, options?: import("./reading.js").ReadOptions | undefined): Reader<Message>;
    /**
     * Return the message with this number. Throws `NotFound`.
     *
     * @param {number} number
     * @param {{ timeout?: number }} [options] ms
     * @returns {Promise<Message>}
     */
    get(number: number, { timeout }?: {
        timeout?: number;
    }): Promise<Message>;
    /**
     * Return the last message of exactly this subject; null if there is none.
     *
     * @param {string} subject
     * @param {{ timeout?: number }} [options] ms
     * @returns {Promise<Message | null>}
     */
    last(subject: string, { timeout }?: {
        timeout?: number;
    }): Promise<Message | null>;
    /**
     * Return what the broker keeps: its journal, the first and the last number, limits.
     *
     * @param {{ timeout?: number }} [options] ms
     * @returns {Promise<Info>}
     */
    info({ timeout }?: {
        timeout?: number;
    }): Promise<Info>;
    /**
     * End all reading, fail what has no number yet, and free what the connection holds for us. The
     * connection is closed, too, if `connect` of this package has made it.
     */
    close(): Promise<void>;
    #private;
}
export type JournalChanged = import("./errors.js").JournalChanged;
export type Lost = import("./errors.js").Lost;
export type NatsConnectionLike = import("./link.js").NatsConnectionLike;
export type Message = import("./message.js").Message;
export type PublishOptions = import("./publishing.js").PublishOptions;
export type Info = import("./reading.js").Info;
export type ReadOptions = import("./reading.js").ReadOptions;
/**
 * `connect` of a NATS client, such as `wsconnect` of `@nats-io/nats-core`.
 */
export type ConnectNats = (options: any) => Promise<NatsConnectionLike>;
import { Reader } from "./reading.js";
