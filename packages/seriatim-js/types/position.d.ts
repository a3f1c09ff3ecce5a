/**
 * @typedef {import("./errors.js").Position} Position
 */
/**
 * Functions that load and save a position. `save` is awaited, and may be where you commit.
 *
 * @typedef {object} PositionKeeper
 * @property {() => Position | null | undefined | Promise<Position | null | undefined>} load
 * @property {(position: Position) => unknown} save
 */
/**
 * Return a position as it was kept, checked; undefined if there is none.
 *
 * @param {unknown} found
 * @returns {Position | undefined}
 */
export function readPosition(found: unknown): Position | undefined;
/** A file with a position: one line of JSON, replaced as a whole. */
export class PositionFile {
    /** @param {string} path */
    constructor(path: string);
    /** @returns {Promise<Position | undefined>} */
    load(): Promise<Position | undefined>;
    /**
     * Note a position; it is written if the last time was a second ago, or else when it will be.
     *
     * @param {Position} position
     * @returns {Promise<void> | undefined}
     */
    save(position: Position): Promise<void> | undefined;
    /** Write what was noted. */
    flush(): Promise<void>;
    #private;
}
export type Position = import("./errors.js").Position;
/**
 * Functions that load and save a position. `save` is awaited, and may be where you commit.
 */
export type PositionKeeper = {
    load: () => Position | null | undefined | Promise<Position | null | undefined>;
    save: (position: Position) => unknown;
};
