/** @returns {Promise<import("./client.js").ConnectNats>} */
export function installedClient(): Promise<import("./client.js").ConnectNats>;
/** @returns {Promise<string | undefined>} */
export function readText(): Promise<string | undefined>;
/** @returns {Promise<void>} */
export function replaceText(): Promise<void>;
