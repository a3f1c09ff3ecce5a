// What each call of a client came to, so that two servers can be compared; outcomes.py's counterpart.
// Times and drawn names are replaced, and a sequence is its rank among those that were published.
const SEQUENCES = new Set(["seq", "stream_seq", "streamSequence", "first_seq", "last_seq"]);
for (const name of ["deleted", "opt_start_seq", "reset_seq", "lastSequence", "sequence"]) {
  SEQUENCES.add(name);
}
const IGNORED = new Set(["Nats-Time-Stamp", "num_waiting", "created", "ts", "time", "timestamp", "last_active", "first_ts"]);
for (const name of ["last_ts", "cluster", "api", "bytes", "metadata", "pause_remaining", "limits"]) {
  IGNORED.add(name);
}
const HEADERS = /^Nats-(Expected-)?(Last-|UpTo-)?(Subject-)?Sequence$/;
const text = new TextDecoder();

export class Outcomes {
  noted = [];
  #published = [];

  begin(section) {
    this.#published = [];
    this.note("section", section);
  }

  published(number) {
    if (!this.#published.includes(number)) this.#published.push(number);
    return number;
  }

  rank(number) {
    return this.#published.filter((one) => one <= number).length;
  }

  // Await what a function returns, and note it; errors are noted too.
  async of(name, call) {
    let found;
    try {
      found = await call();
    } catch (error) {
      const said = error.api_error ?? error.cause?.api_error ?? {};
      this.note(name, `${error.name} ${error.code ?? ""} ${said.err_code ?? ""}: ${error.message}`);
      return null;
    }
    this.note(name, found);
    return found;
  }

  note(name, value) {
    this.noted.push([name, this.#shown(value, "")]);
  }

  #shown(value, name) {
    if (value === undefined || value === null) return null;
    if (typeof value === "number" && SEQUENCES.has(name)) {
      return name === "reset_seq" ? this.rank(value - 1) + 1 : this.rank(value);
    }
    if (typeof value === "string") {
      if (HEADERS.test(name)) return this.rank(Number(value));
      return value
        .replace(/_INBOX\.[A-Za-z0-9.]+/g, "_INBOX")
        .replace(/(sequence:? )(\d+)/g, (_, before, found) => before + this.rank(Number(found)));
    }
    if (value instanceof Uint8Array) return text.decode(value);
    if (Array.isArray(value)) return value.map((one) => this.#shown(one, name));
    if (value instanceof Map) value = Object.fromEntries(value);
    if (typeof value === "object") {
      const kept = Object.entries(value).filter(
        ([key, one]) => !IGNORED.has(key) && !key.startsWith("_") && typeof one !== "function",
      );
      return Object.fromEntries(kept.map(([key, one]) => [key, this.#shown(one, key)]));
    }
    return value;
  }

  print() {
    console.log(JSON.stringify(this.noted));
  }
}
