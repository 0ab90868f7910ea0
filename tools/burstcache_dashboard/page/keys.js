// The virtualised table of keys: only rows in view have elements, so 5,000 keys cost no more than 30.

import { bytes, clock, count, element, plural } from "./text.js";

const ROW_PX = 34, MARGIN = 8;
const [NAME, STATE, TIER, NODE, SINCE, REQUESTS, SIZE, FAILURES, NOT_BEFORE, NEWEST] = Array(10).keys();
const COLUMNS = [
  { name: "Key", at: NAME },
  { name: "State", at: STATE, minor: true },
  { name: "Served by", at: TIER },
  { name: "Since", at: SINCE, minor: true },
  { name: "Last read", at: NEWEST },
  { name: "Reads noted", at: REQUESTS, number: true, minor: true },
  { name: "Size", at: SIZE, number: true, minor: true },
];

export class Keys {
  constructor(parent, filter, state, shown) {
    Object.assign(this, { parent, filter, state, shown, rows: new Map(), order: [], drawn: new Map(), by: NEWEST, down: true });
    this.changed = new Set(); // hashes of rows that may have moved; all others are sorted
    this.body = element("tbody");
    this.heads = COLUMNS.map((column) => this.head(column));
    const head = element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...this.heads));
    this.table = element("table", {}, element("caption", { class: "hidden" }, "Keys"), head, this.body);
    parent.append(this.table);
    parent.addEventListener("scroll", () => this.later(false), { passive: true });
    for (const control of [filter, state]) control.addEventListener("input", () => this.later(true));
    new ResizeObserver(() => this.later(false)).observe(parent);
    this.above = this.pad();
    this.below = this.pad();
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
    for (const [hash, row] of Object.entries(keys)) { this.rows.set(hash, row); this.changed.add(hash); }
    for (const hash of gone) { this.rows.delete(hash); this.changed.add(hash); }
    this.later(false);
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

  // Batches several changes into one redraw.
  later(sorts) {
    this.isUnsorted ||= sorts;
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      const began = performance.now();
      if (this.isUnsorted) this.sort();
      else if (this.changed.size) this.place();
      this.isUnsorted = false;
      this.changed.clear();
      this.draw();
      performance.measure("drawn", { start: began });
    });
  }

  sort() {
    const isShown = this.isShown();
    this.order = [...this.rows].filter(([, row]) => isShown(row)).sort(this.before());
    this.say();
  }

  // Moves changed rows to their positions by a merge, which is much faster than a full sort.
  place() {
    const isShown = this.isShown(), before = this.before();
    const moved = [];
    for (const hash of this.changed) {
      const row = this.rows.get(hash);
      if (row && isShown(row)) moved.push([hash, row]);
    }
    moved.sort(before);
    const merged = [];
    let next = 0;
    for (const entry of this.order) {
      if (this.changed.has(entry[0])) continue;
      while (next < moved.length && before(moved[next], entry) < 0) merged.push(moved[next++]);
      merged.push(entry);
    }
    this.order = merged.concat(moved.slice(next));
    this.say();
  }

  isShown() {
    const text = this.filter.value.toLowerCase(), state = this.state.value;
    return (row) => (!state || row[STATE] === state) && (!text || row[NAME].toLowerCase().includes(text));
  }

  before() {
    const by = this.by, sign = this.down ? -1 : 1;
    const value = by === REQUESTS ? (row) => parseInt(row[by], 10) : (row) => row[by];
    const compared = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    return ([, a], [, b]) => sign * compared(value(a), value(b)) || compared(a[NAME], b[NAME]);
  }

  say() {
    const found = this.order.length, all = this.rows.size;
    const said = found === all ? plural(all, "key") : `${count(found)} of ${plural(all, "key")}`;
    if (this.shown.textContent !== said) this.shown.textContent = said;
    this.table.setAttribute("aria-rowcount", found + 1);
  }

  // Draws changed rows and rows that have come into view. All other rows keep their elements.
  draw() {
    const first = Math.max(0, Math.floor(this.parent.scrollTop / ROW_PX) - MARGIN);
    const last = Math.min(this.order.length, first + Math.ceil(this.parent.clientHeight / ROW_PX) + 2 * MARGIN);
    const focused = document.activeElement?.closest?.("tr")?.dataset.hash;
    const today = new Date().setHours(0, 0, 0, 0), drawn = new Map();
    if (today !== this.day) this.drawn.clear(); // times before midnight now need a date
    this.day = today;
    this.order.slice(first, last).forEach(([hash, row], place) => {
      const former = this.drawn.get(hash);
      const made = former?.row === row ? former : { row, shown: this.row(hash, row) };
      made.shown.setAttribute("aria-rowindex", first + place + 2);
      drawn.set(hash, made);
    });
    this.drawn = drawn;
    this.space(this.above, first);
    this.space(this.below, this.order.length - last);
    const rows = [this.above, ...[...drawn.values()].map(({ shown }) => shown), this.below];
    const held = this.body.children;
    if (rows.length === held.length && rows.every((row, place) => row === held[place])) return;
    this.body.replaceChildren(...rows);
    if (focused) this.body.querySelector(`tr[data-hash="${focused}"] a`)?.focus({ preventScroll: true });
  }

  row(hash, row) {
    const remark = row[NOT_BEFORE] ? " (cooling down)" : row[FAILURES] ? " (failed before)" : "";
    const link = element("a", { href: `#key=${encodeURIComponent(row[NAME])}`, title: row[NAME] }, row[NAME]);
    const served = row[TIER] === "redis" ? `Redis (${row[NODE]})` : row[TIER] === "lambda" ? "cache function" : "S3";
    const cells = [
      element("td", {}, link),
      element("td", { class: "minor", title: remark ? row[STATE] + remark : null }, row[STATE] + remark),
      element("td", {}, served),
      element("td", { class: "minor" }, clock(row[SINCE])),
      element("td", {}, clock(row[NEWEST])),
      element("td", { class: "number minor" }, row[REQUESTS]),
      element("td", { class: "number minor" }, bytes(row[SIZE])),
    ];
    return element("tr", { "data-hash": hash }, ...cells);
  }

  // Has a single cell, because more cells than visible columns would add columns.
  pad() {
    return element("tr", { "aria-hidden": "true" }, element("td", { class: "pad" }));
  }

  space(pad, rows) {
    const height = `${rows * ROW_PX}px`;
    pad.hidden = rows === 0;
    if (pad.style.height !== height) pad.style.height = pad.firstChild.style.height = height;
  }
}
