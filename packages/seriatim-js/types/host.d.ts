/**
 * Return `connect` of the NATS client that is installed.
 *
 * @returns {Promise<import("./client.js").ConnectNats>}
 */
export function installedClient(): Promise<import("./client.js").ConnectNats>;
/**
 * Return what is in a file; undefined if there is none.
 *
 * @param {string} path
 * @returns {Promise<string | undefined>}
 */
export function readText(path: string): Promise<string | undefined>;
/**
 * Replace a file as a whole: after a crash it has the old text or the new one.
 *
 * @param {string} path
 * @param {string} text
 */
export function replaceText(path: string, text: string): Promise<void>;
