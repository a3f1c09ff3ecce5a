// Figures as people read them.

const GROUP = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 1234567 -> "1,234,567". */
export const count = (value) => GROUP.format(value);

/** 1234567 -> "1.23 M"; small values keep their digits. */
export function short(value) {
  if (!Number.isFinite(value)) return "";
  const size = Math.abs(value);
  for (const [unit, scale] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (size >= scale * 0.9995) return `${digits(value / scale)} ${unit}`;
  }
  return size >= 100 || Number.isInteger(value) ? String(Math.round(value)) : digits(value);
}

/** Bytes in binary units: 1536 -> "1.50 KiB". */
export function bytes(value) {
  const size = Math.abs(value);
  for (const [unit, power] of [["TiB", 4], ["GiB", 3], ["MiB", 2], ["KiB", 1]]) {
    const scale = 1024 ** power;
    if (size >= scale * 0.9995) return `${digits(value / scale)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** Seconds: 0.00042 -> "420 us", 75 -> "1m 15s". */
export function span(seconds) {
  if (seconds < 0.0009995) return `${Math.round(seconds * 1e6)} \u00b5s`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 59.5) return `${digits(seconds)} s`;
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  let left = Math.round(seconds);
  const shown = [];
  for (const [unit, size] of units) {
    const whole = Math.floor(left / size);
    left -= whole * size;
    if (whole || shown.length) shown.push(`${whole}${unit}`);
  }
  return shown.slice(0, 2).join(" ");
}

/** A time (seconds since 1970) as the viewer's clock shows it. */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleString("sv-SE", { hour12: false });
}

/** How long ago a time was, on the broker's clock. */
export const ago = (seconds, now) => (seconds ? `${span(Math.max(now - seconds, 0))} ago` : "");

/** "sum of 3 things": 1 -> "1 replay", 2 -> "2 replays". */
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
