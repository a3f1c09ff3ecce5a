// Tables that are refreshed in place: rows keep their place in the page, focus and selection.

import { h, write } from "./dom.js";

/**
 * A table. Columns: { key, label, title, value(row), text(row), num, clip, level(row) }.
 * `value` is what a column sorts by, `text` what it shows; both default to row[key].
 */
export class Table {
  constructor(columns, { key, sort = "", descending = true, chosen, empty = "Nothing here." } = {}) {
    this.columns = columns;
    this.key = key;
    this.sort = sort;
    this.descending = descending;
    this.chosen = chosen;
    this.selected = null;
    this.filter = "";
    this.rows = [];
    this.lines = new Map(); // by key
    this.heads = columns.map((column) =>
      h("th", { class: column.num ? "num" : undefined, scope: "col", title: column.title },
        h("button", { type: "button", click: () => this.sortBy(column) }, column.label)));
    this.body = h("tbody");
    this.nothing = h("p", { class: "empty" }, empty);
    this.table = h("table", {}, h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.element = h("div", { class: "scroll" }, this.table, this.nothing);
    this.arrange();
  }

  sortBy(column) {
    this.descending = this.sort === column.key ? !this.descending : Boolean(column.num);
    this.sort = column.key;
    this.arrange();
  }

  /** Show only rows in which some column contains this text. */
  filterBy(text) {
    this.filter = text.toLowerCase();
    this.arrange();
  }

  show(rows) {
    this.rows = rows;
    this.arrange();
  }

  arrange() {
    const sorting = this.columns.find((column) => column.key === this.sort);
    let rows = this.rows;
    if (this.filter) {
      rows = rows.filter((row) => this.columns.some((column) => String(text(column, row)).toLowerCase().includes(this.filter)));
    }
    if (sorting) {
      const way = this.descending ? -1 : 1;
      rows = [...rows].sort((one, other) => way * compare(value(sorting, one), value(sorting, other)));
    }
    this.heads.forEach((head, at) => {
      if (this.columns[at] !== sorting) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    });
    const left = new Map(this.lines);
    let before = null;
    for (const row of rows) {
      const key = this.key(row);
      let line = this.lines.get(key);
      if (!line) this.lines.set(key, (line = this.line(key)));
      left.delete(key);
      line.row = row;
      this.columns.forEach((column, at) => {
        const cell = line.cells[at];
        const shown = String(text(column, row) ?? "");
        write(column.level ? cell.firstChild : cell, shown);
        if (column.level) cell.firstChild.dataset.level = column.level(row) ?? "";
        if (column.clip && cell.title !== shown) cell.title = shown;
        cell.classList.toggle("zero", Boolean(column.num) && value(column, row) === 0);
      });
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== line.element) this.body.insertBefore(line.element, place);
      before = line.element;
    }
    for (const [key, line] of left) {
      line.element.remove();
      this.lines.delete(key);
    }
    this.nothing.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
  }

  line(key) {
    const cells = this.columns.map((column) =>
      h("td", { class: [column.num && "num", column.clip && "clip", column.mono && "mono"].filter(Boolean).join(" ") || undefined },
        column.level ? h("span", { class: "tag" }) : ""));
    const line = { element: null, cells, row: null };
    const attributes = {};
    if (this.chosen) {
      const choose = () => this.choose(key);
      Object.assign(attributes, { tabindex: 0, "aria-selected": key === this.selected ? "true" : "false", click: choose,
        keydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), choose()) });
    }
    line.element = h("tr", attributes, cells);
    return line;
  }

  choose(key) {
    this.selected = key;
    for (const [other, line] of this.lines) line.element.setAttribute("aria-selected", String(other === key));
    const line = this.lines.get(key);
    if (line) this.chosen(line.row);
  }
}

const value = (column, row) => (column.value ? column.value(row) : row[column.key]);
const text = (column, row) => (column.text ? column.text(row) : value(column, row));

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true });
}

/** A card with a title, a line of tools, and a table. */
export function tableCard(title, table, ...tools) {
  return h("section", { class: "card" }, h("h2", {}, title), tools.length ? h("div", { class: "bar" }, tools) : "", table.element);
}

/** A field that filters tables while it is typed in. */
export function filterField(label, ...tables) {
  return h("input", { type: "search", placeholder: label, "aria-label": label, "data-search": true,
    input: (event) => tables.forEach((table) => table.filterBy(event.target.value)) });
}
