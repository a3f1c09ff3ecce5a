// Line charts of the last ten minutes: uPlot, in the colours of the page.

import { h, write } from "./dom.js";

const SPAN = 600; // seconds, once there are so many
const SPAN_MIN = 120;
export const BINARY = Array.from({ length: 50 }, (none, power) => 2 ** power); // steps of an axis of bytes
const COLOURS = ["--in", "--out", "--third"];
const shared = globalThis.uPlot?.sync("time");
const all = new Set();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** One chart: a card with a title, a legend that shows the newest values, and lines. */
export class Chart {
  /** `series`: [[label, () => values]], `show`: a value as text. */
  constructor(title, series, show, { floor = 1, steps } = {}) {
    this.series = series;
    this.show = show;
    this.steps = steps;
    this.floor = floor; // the axis reaches at least so high, so that noise looks like noise
    this.values = series.map(() => h("b"));
    const legend = series.map(([label], at) => h("span", { class: `s${at}` }, h("i"), label, this.values[at]));
    this.plot = h("div", { class: "plot", role: "img", "aria-label": title });
    this.card = h("section", { class: "card" }, h("h2", {}, title, h("span", { class: "legend" }, legend)), this.plot);
    this.drawn = null;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.plot);
    all.add(this);
  }

  draw(times) {
    const data = [times, ...this.series.map(([, read]) => read())];
    data.slice(1).forEach((values, at) => {
      const hovered = this.drawn?.cursor.idx;
      const newest = values[hovered ?? values.length - 1];
      write(this.values[at], newest === null || newest === undefined ? "" : this.show(newest));
    });
    this.data = data;
    if (this.drawn) this.drawn.setData(data);
    else if (this.plot.clientWidth) this.drawn = new globalThis.uPlot(this.options(), data, this.plot);
  }

  options() {
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width: this.plot.clientWidth,
      height: this.plot.clientHeight,
      legend: { show: false },
      padding: [8, 6, 0, 0],
      cursor: { sync: { key: shared?.key }, points: { size: 6 }, drag: { x: false, y: false } },
      scales: {
        x: { range: () => this.span() },
        y: { range: (plot, low, high) => [0, Math.max(high * 1.12 || 0, this.floor)] },
      },
      axes: [
        { ...axis, size: 26, space: 80, values: (plot, ticks) => ticks.map((at) => clockAt(at, ticks)) },
        { ...axis, size: 66, space: 34, incrs: this.steps, values: (plot, ticks) => ticks.map((value) => (value ? this.show(value) : "0")) },
      ],
      series: [
        {},
        ...this.series.map(([label], at) => ({
          label,
          stroke: colour(COLOURS[at]),
          width: 1.75,
          fill: this.series.length === 1 || at === 0 ? `${colour(COLOURS[at])}1f` : undefined,
          points: { show: false },
        })),
      ],
    };
  }

  /** The times that are shown: two minutes at first, ten at last. */
  span() {
    const times = this.data?.[0] ?? [];
    const now = times.at(-1) ?? Date.now() / 1000;
    return [now - Math.min(Math.max(now - (times[0] ?? now), SPAN_MIN), SPAN), now];
  }

  resize() {
    if (this.drawn) this.drawn.setSize({ width: this.plot.clientWidth, height: this.plot.clientHeight });
    else if (this.data) this.draw(this.data[0]);
  }

  /** Draw anew, in other colours. */
  redress() {
    this.drawn?.destroy();
    this.drawn = null;
    if (this.data) this.draw(this.data[0]);
  }

  free() {
    all.delete(this);
    this.observer.disconnect();
    this.drawn?.destroy();
  }
}

/** Draw all charts in the colours of the present theme. */
export function redressAll() {
  all.forEach((chart) => chart.redress());
}

/** A time of the axis; with seconds, if not all are whole minutes. */
function clockAt(at, ticks) {
  const parts = { hour: "2-digit", minute: "2-digit", second: ticks.some((one) => one % 60) ? "2-digit" : undefined };
  return new Date(at * 1000).toLocaleTimeString("sv-SE", parts);
}
