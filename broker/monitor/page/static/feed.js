// The figures of the broker, once a second: server-sent events, kept for the charts.
//
//   connecting --> live <--> trouble     the broker's loop does not answer
//                   |   \--> lost        no connection; the browser tries again
//                   '------> paused      by the viewer; hidden pages are cut off, too
//
// A browser opens six connections to one address. So a page that is not looked at keeps none.

const KEPT = 600;
const SILENT_MS = 4000; // without a sample: the connection hangs

export class Feed extends EventTarget {
  constructor(path) {
    super();
    this.path = path;
    this.state = "connecting";
    this.why = "";
    this.fields = [];
    this.rows = []; // one for each second, by `fields`
    this.varz = null;
    this.since = 0;
    this.paused = false;
    this.watchdog = 0;
    document.addEventListener("visibilitychange", () => this.settle());
    this.settle();
  }

  /** Pause, or go on. */
  pause(paused) {
    this.paused = paused;
    this.settle();
  }

  settle() {
    const wanted = !this.paused && !document.hidden;
    if (wanted && !this.source) this.open();
    if (!wanted && this.source) this.shut(this.paused ? "paused" : "connecting");
    if (this.paused) this.enter("paused", "");
  }

  open() {
    const source = new EventSource(this.path);
    this.source = source;
    source.addEventListener("history", (event) => {
      const { fields, rows } = JSON.parse(event.data);
      this.fields = fields;
      if (rows.length) this.rows = rows;
    });
    source.addEventListener("sample", (event) => this.take(JSON.parse(event.data)));
    source.addEventListener("trouble", (event) => {
      this.feedWatchdog();
      this.enter("trouble", JSON.parse(event.data).error);
    });
    source.onerror = () => {
      this.enter("lost", "no answer; trying again");
      if (source.readyState === EventSource.CLOSED) this.reopen();
    };
    this.feedWatchdog();
  }

  /** Begin again after a second: the server refused, or the connection hangs. */
  reopen() {
    this.shut("lost");
    setTimeout(() => this.settle(), 1000);
  }

  shut(state) {
    clearTimeout(this.watchdog);
    this.source?.close();
    this.source = null;
    this.enter(state, this.why);
  }

  feedWatchdog() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      this.enter("lost", "no answer; trying again");
      this.reopen();
    }, SILENT_MS);
  }

  take({ row, varz }) {
    this.feedWatchdog();
    if (this.varz && this.varz.server_id !== varz.server_id) this.rows = []; // another process
    if (row[0] <= this.rows.at(-1)?.[0]) this.rows = []; // the broker's clock was set back
    this.varz = varz;
    this.rows.push(row);
    if (this.rows.length > KEPT) this.rows.shift();
    this.enter("live", "");
    this.dispatchEvent(new Event("sample"));
  }

  enter(state, why) {
    if (this.state !== state || this.why !== why) {
      this.state = state;
      this.why = why;
      this.dispatchEvent(new Event("state"));
    }
  }

  /** A gauge over time: [times, values]. */
  gauge(field, scale = 1) {
    const at = this.fields.indexOf(field);
    return this.rows.map((row) => row[at] * scale);
  }

  /** What a counter rose by in each second, per second; null where a second is missing. */
  rate(field) {
    return this.quotient(this.fields.indexOf(field), 0);
  }

  /** What one counter rose by for each 1 of another: seconds for each sync. */
  quotient(above, below) {
    const named = (at) => (typeof at === "string" ? this.fields.indexOf(at) : at);
    const [top, bottom] = [named(above), named(below)];
    return this.rows.map((row, index) => {
      const before = this.rows[index - 1];
      if (!before || row[0] - before[0] > 5) return null;
      const by = row[bottom] - before[bottom];
      return by > 0 ? Math.max(row[top] - before[top], 0) / by : bottom === 0 ? null : 0;
    });
  }

  get times() {
    return this.rows.map((row) => row[0]);
  }

  /** The newest rate of a counter, over the last few seconds. */
  now(field, seconds = 3) {
    const at = this.fields.indexOf(field);
    const last = this.rows[this.rows.length - 1];
    const first = this.rows[Math.max(this.rows.length - 1 - seconds, 0)];
    if (!last || first === last) return 0;
    return Math.max(last[at] - first[at], 0) / (last[0] - first[0]);
  }
}
