// The table of keys. Only the rows in view are elements, so five thousand keys cost no more than thirty.

import { bytes, clock, count, element, plural } from "./text.js";

const ROW_PX = 34, MARGIN = 8;
const [NAME, STATE, TIER, NODE, SINCE, REQUESTS, SIZE, FAILURES, NOT_BEFORE, NEWEST] = Array(10).keys();
const COLUMNS = [
  { name: "Key", at: NAME },
  { name: "State", at: STATE },
  { name: "Served by", at: TIER, minor: true },
  { name: "Since", at: SINCE, minor: true },
  { name: "Last read", at: NEWEST, minor: true },
  { name: "Reads kept", at: REQUESTS, number: true },
  { name: "Size", at: SIZE, number: true, minor: true },
];

export class Keys {
  constructor(parent, filter, state, shown) {
    Object.assign(this, { parent, filter, state, shown, rows: new Map(), order: [], by: NEWEST, down: true });
    this.body = element("tbody");
    this.heads = COLUMNS.map((column) => this.head(column));
    const head = element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...this.heads));
    this.table = element("table", {}, element("caption", { class: "hidden" }, "Keys"), head, this.body);
    parent.append(this.table);
    parent.addEventListener("scroll", () => this.later(false), { passive: true });
    for (const control of [filter, state]) control.addEventListener("input", () => this.later(true));
    new ResizeObserver(() => this.later(false)).observe(parent);
    this.mark();
  }

  head(column) {
    const sort = () => {
      this.down = this.by === column.at ? !this.down : ![NAME, STATE, TIER].includes(column.at);
      this.by = column.at;
      this.mark();
      this.later(true);
    };
    const class_ = [column.number && "number", column.minor && "minor"].filter(Boolean).join(" ") || null;
    return element("th", { scope: "col", class: class_ }, element("button", { type: "button", onclick: sort }, column.name));
  }

  mark() {
    COLUMNS.forEach((column, place) => {
      const head = this.heads[place], isBy = column.at === this.by;
      head.setAttribute("aria-sort", isBy ? (this.down ? "descending" : "ascending") : "none");
      head.firstChild.textContent = column.name + (isBy ? (this.down ? " ↓" : " ↑") : "");
    });
  }

  replace(keys) {
    this.rows = new Map(Object.entries(keys));
    this.later(true);
  }

  change(keys, gone) {
    for (const [hash, row] of Object.entries(keys)) this.rows.set(hash, row);
    for (const hash of gone) this.rows.delete(hash);
    this.later(true);
  }

  states(counts) {
    const now = ["", ...Object.keys(counts).sort()];
    const texts = now.map((state) => (state ? `${state} (${count(counts[state])})` : "all"));
    const chosen = this.state.value;
    if (chosen && !now.includes(chosen)) { now.push(chosen); texts.push(`${chosen} (0)`); }
    if ([...this.state.options].map((option) => option.text).join() === texts.join()) return;
    this.state.replaceChildren(...now.map((state, place) => element("option", { value: state }, texts[place])));
    this.state.value = chosen;
  }

  // Several changes make one drawing.
  later(sorts) {
    this.isUnsorted ||= sorts;
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      const began = performance.now();
      if (this.isUnsorted) this.sort();
      this.isUnsorted = false;
      this.draw();
      performance.measure("drawn", { start: began });
    });
  }

  sort() {
    const text = this.filter.value.toLowerCase(), state = this.state.value;
    const found = [];
    for (const entry of this.rows) {
      const row = entry[1];
      if ((!state || row[STATE] === state) && (!text || row[NAME].toLowerCase().includes(text))) found.push(entry);
    }
    const by = this.by, sign = this.down ? -1 : 1;
    const value = by === REQUESTS ? (row) => parseInt(row[by], 10) : (row) => row[by];
    const before = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    found.sort(([, a], [, b]) => sign * before(value(a), value(b)) || before(a[NAME], b[NAME]));
    this.order = found;
    const all = this.rows.size;
    const said = found.length === all ? plural(all, "key") : `${count(found.length)} of ${plural(all, "key")}`;
    if (this.shown.textContent !== said) this.shown.textContent = said;
    this.table.setAttribute("aria-rowcount", found.length + 1);
  }

  draw() {
    const first = Math.max(0, Math.floor(this.parent.scrollTop / ROW_PX) - MARGIN);
    const last = Math.min(this.order.length, first + Math.ceil(this.parent.clientHeight / ROW_PX) + 2 * MARGIN);
    const focused = document.activeElement?.closest?.("tr")?.dataset.hash;
    const rows = this.order.slice(first, last).map(([hash, row], place) => this.row(hash, row, first + place + 2));
    this.body.replaceChildren(this.pad(first), ...rows, this.pad(this.order.length - last));
    if (focused) this.body.querySelector(`tr[data-hash="${focused}"] a`)?.focus({ preventScroll: true });
  }

  row(hash, row, index) {
    const remark = row[NOT_BEFORE] ? " (cooling down)" : row[FAILURES] ? " (failed before)" : "";
    const link = element("a", { href: `#key=${encodeURIComponent(row[NAME])}`, title: row[NAME] }, row[NAME]);
    const served = row[TIER] === "redis" ? `Redis (${row[NODE]})` : row[TIER] === "lambda" ? "cache function" : "S3";
    const cells = [
      element("td", {}, link),
      element("td", {}, row[STATE] + remark),
      element("td", { class: "minor" }, served),
      element("td", { class: "minor" }, clock(row[SINCE])),
      element("td", { class: "minor" }, clock(row[NEWEST])),
      element("td", { class: "number" }, row[REQUESTS]),
      element("td", { class: "number minor" }, bytes(row[SIZE])),
    ];
    return element("tr", { "data-hash": hash, "aria-rowindex": index }, ...cells);
  }

  pad(rows) {
    const cell = element("td", { class: "pad", colspan: COLUMNS.length });
    cell.style.height = `${rows * ROW_PX}px`;
    const made = element("tr", { "aria-hidden": "true" }, cell);
    made.style.height = cell.style.height;
    made.hidden = rows === 0;
    return made;
  }
}
