/** @param {string} subject */
export function checkSubject(subject: string): void;
/**
 * The messages of a `read`: `for await (const message of reader)`, and where it has got to.
 *
 * Leaving the loop frees everything, in whichever way. A loss that is thrown frees everything, too;
 * another loop over the same reader goes on behind it.
 *
 * @template {Message | Lost | JournalChanged} Item
 * @implements {AsyncIterableIterator<Item>}
 */
export class Reader<Item extends Message | Lost | JournalChanged> implements AsyncIterableIterator<Item> {
    /**
     * @param {Link} link
     * @param {string} subject
     * @param {ReadOptions} options
     */
    constructor(link: Link, subject: string, options: ReadOptions);
    /** The place behind what was handed over last; to be kept with its effect. */
    get position(): import("./errors.js").Position;
    /**
     * Return the next item; what was handed over before has been processed.
     *
     * @returns {Promise<IteratorResult<Item, undefined>>}
     */
    next(): Promise<IteratorResult<Item, undefined>>;
    /**
     * End the reading, in any state: `break` does it. What was handed over last is not noted as
     * processed, for an exception ends a loop in the same way: call `done()` before a `break`.
     *
     * @returns {Promise<IteratorResult<Item, undefined>>}
     */
    return(): Promise<IteratorResult<Item, undefined>>;
    /** Note that what was handed over last has been processed, without asking for the next. */
    done(): Promise<void>;
    /** @returns {this} */
    [Symbol.asyncIterator](): this;
    #private;
}
export type Position = import("./errors.js").Position;
export type Link = import("./link.js").Link;
export type Message = import("./message.js").Message;
export type NativeMessage = import("./message.js").NativeMessage;
export type PositionKeeper = import("./position.js").PositionKeeper;
/**
 * Where to begin, where to end, and what to do on the way; of `start`, `since` and `last` only one.
 */
export type ReadOptions = {
    /**
     * this number, or behind this position
     */
    start?: number | import("./errors.js").Position | undefined;
    /**
     * the first message at or after this time; ms since 1970
     */
    since?: number | Date | undefined;
    /**
     * the last message of each subject that matches, then live
     */
    last?: boolean | undefined;
    /**
     * the last number to be read, or the last there is
     */
    until?: number | "now" | undefined;
    /**
     * what is published from now on, if no position is known
     */
    orNow?: boolean | undefined;
    /**
     * a file, or two functions: reading begins behind
     * the position that is kept there, and keeps it up to date
     */
    position?: string | import("./position.js").PositionKeeper | undefined;
    /**
     * whether `Lost` and `JournalChanged` are thrown, or items
     */
    losses?: "raise" | "yield" | undefined;
    /**
     * ends the reading; its reason is thrown
     */
    signal?: AbortSignal | undefined;
};
/**
 * What the broker keeps: the answer to `$SEQ.INFO`. Times are milliseconds since 1970.
 */
export type Info = {
    /**
     * the id of the journal; with another one, number 7 is another message
     */
    journal: string;
    /**
     * how many times the journal was opened
     */
    epoch: number;
    /**
     * the first number that can be read; `last` + 1 if there is none
     */
    first: number;
    /**
     * the last number that was given; 0 if none was
     */
    last: number;
    messages: number;
    bytes: number;
    oldest: number;
    newest: number;
    /**
     * the broker's clock
     */
    time: number;
    store: "disk" | "memory" | "none";
    /**
     * when a message is on disk: always, interval or never
     */
    sync: string;
    /**
     * publishers are refused: the disk, or what is kept, is full
     */
    full: boolean;
    /**
     * the user's rights hide some messages
     */
    restricted: boolean;
    limits: Record<string, number>;
};
import { Lost } from "./errors.js";
import { JournalChanged } from "./errors.js";
