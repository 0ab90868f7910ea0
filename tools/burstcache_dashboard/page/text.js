// Values as a person reads them, and elements that hold them. Text goes in as text only: names of keys are strangers'.

export const TIERS = ["memory", "redis", "lambda", "express", "s3"];
export const TIER_NAMES = { memory: "memory", redis: "Redis", lambda: "cache function", express: "S3 Express", s3: "S3" };

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function table(caption, columns, rows, foot = null) {
  const cell = (value, index) => element("td", { class: classOf(columns[index]) }, value instanceof Node ? value : String(value));
  const head = element("tr", {}, ...columns.map((column) => element("th", { scope: "col", class: classOf(column) }, column.name)));
  const parts = [
    element("caption", { class: "hidden" }, caption),
    element("thead", {}, head),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))),
  ];
  if (foot) parts.push(element("tfoot", {}, element("tr", {}, ...foot.map(cell))));
  const made = element("table", {}, ...parts);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${caption}, table` }, made);
}

// Replaces what an element holds, unless it would look the same; focus and scrolling stay where they are.
export function fill(parent, ...children) {
  const next = element("div", {}, ...children);
  if (parent.innerHTML === next.innerHTML) return;
  const scrolled = parent.querySelector(".scroll")?.scrollLeft ?? 0;
  const focused = parent.contains(document.activeElement) ? [...parent.querySelectorAll("a,button,[tabindex]")].indexOf(document.activeElement) : -1;
  parent.replaceChildren(...next.childNodes);
  const scroll = parent.querySelector(".scroll");
  if (scroll && scrolled) scroll.scrollLeft = scrolled;
  if (focused >= 0) parent.querySelectorAll("a,button,[tabindex]")[focused]?.focus({ preventScroll: true });
}

function classOf(column) {
  return [column.number && "number", column.minor && "minor", column.wide && "wide"].filter(Boolean).join(" ") || null;
}

export const count = (number) => number.toLocaleString("en-GB");
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function usd(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "$0";
  if (Math.abs(value) >= 0.01) return `$${value.toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  return `$${Number(value.toPrecision(2)).toLocaleString("en-GB", { maximumFractionDigits: 12 })}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1000) return duration(value);
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
}

export function duration(value_ms) {
  const sign = value_ms < 0 ? "−" : "";
  const seconds = Math.abs(value_ms) / 1000;
  if (seconds < 60) return `${sign}${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const large = units.findIndex(([, size]) => seconds >= size);
  const whole = Math.floor(seconds / units[large][1]);
  const rest = Math.floor((seconds % units[large][1]) / units[large + 1][1]);
  return `${sign}${whole} ${units[large][0]}${rest ? ` ${rest} ${units[large + 1][0]}` : ""}`;
}

export function bytes(value) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return value ? `${value} B` : "–";
}

export function clock(at_ms, withMs = false) {
  if (!at_ms) return "–";
  const at = new Date(at_ms);
  const time = at.toLocaleTimeString("en-GB") + (withMs ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-GB")} ${time}`;
}

export function colour(tier) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${tier}`).trim() || "gray";
}
