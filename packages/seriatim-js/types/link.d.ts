/** Hears of a connection, does nothing. */
export function nothing(): void;
/**
 * Return `size` random letters of 6 bits each.
 *
 * @param {number} size
 * @returns {string}
 */
export function randomText(size: number): string;
/**
 * Return why the broker has refused something, from an error of the NATS client.
 *
 * @param {unknown} error
 * @returns {string}
 */
export function reasonOf(error: unknown): string;
/**
 * Return an answer of the broker, or throw its refusal.
 *
 * @param {NativeMessage} answer
 * @param {string} about
 * @returns {NativeMessage}
 */
export function checked(answer: NativeMessage, about: string): NativeMessage;
/** A connection, and what waits for it. */
export class Link {
    /**
     * @param {NatsConnectionLike} connection
     * @param {{ frame?: string, inboxPrefix?: string }} options
     */
    constructor(connection: NatsConnectionLike, { frame, inboxPrefix }: {
        frame?: string;
        inboxPrefix?: string;
    });
    connection: NatsConnectionLike;
    isClosed: boolean;
    /** @type {Error | undefined} why it was closed, unless a user closed it */
    error: Error | undefined;
    /** True if there is a connection at the moment. */
    get isUp(): boolean;
    /** The form in which numbers come on this connection. */
    get frame(): string;
    /** The largest message that the broker accepts, headers included. */
    get maxPayload(): number;
    /** Throw if this is a server without numbers, or a listener that does not send them. */
    checkNumbers(): void;
    /** A new subject for answers of one's own. */
    newInbox(): string;
    /** @param {Listener} listener */
    add(listener: Listener): void;
    /** @param {Listener} listener */
    remove(listener: Listener): void;
    /**
     * End it: free all that the NATS client holds for us. The connection itself stays as it is.
     *
     * @param {Error} [error]
     */
    close(error?: Error): void;
    /**
     * Wait until there is a connection.
     *
     * @param {number} ms
     * @returns {Promise<void>}
     */
    whenUp(ms: number): Promise<void>;
    /**
     * Ask the broker, on this connection only.
     *
     * @param {string} subject
     * @param {number} ms
     * @param {Set<(error: unknown) => void>} [cancels] gets a function that ends the wait
     * @returns {Promise<NativeMessage>}
     */
    askOnce(subject: string, ms: number, cancels?: Set<(error: unknown) => void>): Promise<NativeMessage>;
    /**
     * Ask the broker, again after a break.
     *
     * @param {string} subject
     * @param {number} ms
     * @param {string} [about] the subject for errors
     * @returns {Promise<NativeMessage>}
     */
    ask(subject: string, ms: number, about?: string): Promise<NativeMessage>;
    #private;
}
export type NativeMessage = import("./message.js").NativeMessage;
export type Asked = {
    subject: string;
    take: (answer: NativeMessage) => void;
    fail: (error: unknown) => void;
};
/**
 * Something that must know of the connection.
 */
export type Listener = {
    up: () => void;
    down: () => void;
    closed: (error: ConnectionLost, isFailure: boolean) => void;
    refused?: ((subject: string, reason: string) => void) | undefined;
};
/**
 * A subscription, as both npm clients have it.
 */
export type NativeSubscription = {
    unsubscribe: (max?: number) => void;
};
/**
 * A status, as both npm clients have it.
 */
export type NativeStatus = {
    type: string;
    error?: Error | undefined;
    permissionContext?: {
        operation: string;
        subject: string;
    } | undefined;
};
/**
 * What this package needs of a connection: that of `nats` 2.x, or of `@nats-io/transport-node` 3.x.
 */
export type NatsConnectionLike = {
    info?: object | undefined;
    isClosed: () => boolean;
    closed: () => Promise<void | Error>;
    close: () => Promise<void>;
    flush: () => Promise<void>;
    publish: (subject: string, payload?: any, options?: any) => void;
    subscribe: (subject: string, options?: any) => NativeSubscription;
    status: () => AsyncIterable<any> & {
        stop?: () => void;
    };
};
import { ConnectionLost } from "./errors.js";
