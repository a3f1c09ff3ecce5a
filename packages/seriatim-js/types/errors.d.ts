/**
 * What can go wrong, and what to do:
 *
 *     BrokerError            base of all
 *     |-- ConnectionLost     there is no connection, and none will come: it was closed
 *     |-- NoAnswer           no answer in time
 *     |-- NotSeriatim        the server has no numbers
 *     |-- Refused            the broker refused a message or a request; nothing was published
 *     |   |-- WrongLastNumber  somebody was faster; `last` is the true last number
 *     |   `-- NotFound         there is no such message, or not any more
 *     |-- Unconfirmed        it may have been published, or not: publish it again with the same `id`
 *     |-- Lost               the numbers `first` to `last` do not exist any more
 *     |-- JournalChanged     the numbers seen so far belong to other messages now: `before`, `now`
 *     `-- InvalidArgument    what was given cannot be sent; nothing was sent
 *         `-- MessageTooLarge  a message larger than the broker accepts
 */
/**
 * A place in the order: the id of a journal, and the number of the last message processed.
 *
 * With `time`, when that message was published, a journal that has lost its end and has grown again
 * is recognised. It is there if the frame of the connection is `stamp`.
 *
 * @typedef {{ journal: string, number: number, time?: string }} Position
 */
/** The base of all errors of this package; `status` is the broker's code, or 0. */
export class BrokerError extends Error {
    /**
     * @param {string} message
     * @param {{ status?: number, cause?: unknown }} [options]
     */
    constructor(message: string, { status, cause }?: {
        status?: number;
        cause?: unknown;
    });
    status: number;
}
/** There is no connection, or it broke before the answer came. */
export class ConnectionLost extends BrokerError {
}
/** No answer in time. */
export class NoAnswer extends BrokerError {
}
/** The server has no numbers: it is not a Seriatim broker, or this listener does not send them. */
export class NotSeriatim extends BrokerError {
}
/** The broker refused a message or a request to `subject`; nothing was published. */
export class Refused extends BrokerError {
    /**
     * @param {string} reason
     * @param {string} subject
     * @param {number} [status]
     */
    constructor(reason: string, subject: string, status?: number);
    reason: string;
    subject: string;
}
/** The last number is another one than was expected. Read what came since, and decide again. */
export class WrongLastNumber extends Refused {
    /** The true last number; 0 if there is no message. */
    get last(): number;
}
/** There is no such message, or not any more. */
export class NotFound extends Refused {
}
/**
 * A message to `subject` may have been published, or not: no answer came.
 *
 * Publish it again with the same `id`: it then gets its number once, if that is within the broker's
 * `journal.dedupe_window` (2 minutes).
 */
export class Unconfirmed extends BrokerError {
    /**
     * @param {string} reason
     * @param {string} subject
     * @param {string} id
     */
    constructor(reason: string, subject: string, id: string);
    reason: string;
    subject: string;
    id: string;
}
/**
 * The numbers `first` to `last` were asked for, and do not exist any more: retention deleted them, or
 * a disk is damaged. Reading may go on: the next message is one behind them.
 */
export class Lost extends BrokerError {
    /**
     * @param {number} first
     * @param {number} last
     */
    constructor(first: number, last: number);
    first: number;
    last: number;
}
/**
 * The broker has another journal than the one whose numbers were seen, or lost its end.
 *
 * `before` is the position reached, `now` where the journal that is there ends. Number 7 may now be
 * another message. If you go on reading, it begins with the first message that is there.
 */
export class JournalChanged extends BrokerError {
    /**
     * @param {Position} before
     * @param {Position} now
     */
    constructor(before: Position, now: Position);
    before: Position;
    now: Position;
}
/** An argument cannot be sent; nothing was sent. */
export class InvalidArgument extends BrokerError {
}
/** The message is larger than the broker accepts. */
export class MessageTooLarge extends InvalidArgument {
}
/**
 * A place in the order: the id of a journal, and the number of the last message processed.
 *
 * With `time`, when that message was published, a journal that has lost its end and has grown again
 * is recognised. It is there if the frame of the connection is `stamp`.
 */
export type Position = {
    journal: string;
    number: number;
    time?: string;
};
