// Formatted text and elements. Text is never inserted as HTML, because key names are untrusted.

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

// Replaces an element's children, but changes only those that differ. This preserves focus, selection and scroll
// position when a figure in a table changes.
export function fill(parent, ...children) {
  const next = document.createDocumentFragment();
  next.append(...children);
  adjust(parent, next);
}

function adjust(parent, next) {
  const before = [...parent.childNodes], after = [...next.childNodes];
  after.forEach((child, place) => {
    const held = before[place];
    if (!held) parent.append(child);
    else if (!isAlike(held, child)) replace(held, child);
    else if (held.nodeType === Node.TEXT_NODE) { if (held.data !== child.data) held.data = child.data; }
    else { adjustAttributes(held, child); adjust(held, child); }
  });
  for (const held of before.slice(after.length)) held.remove();
}

// Different buttons have different actions, so they are replaced, not adjusted.
function isAlike(held, child) {
  return held.nodeName === child.nodeName && (held.nodeName !== "BUTTON" || held.isEqualNode(child));
}

function replace(held, child) {
  const hadFocus = held.contains(document.activeElement);
  held.replaceWith(child);
  if (!hadFocus) return;
  const focusable = "a,button,[tabindex]";
  const target = child.matches?.(focusable) ? child : child.querySelector?.(focusable);
  target?.focus({ preventScroll: true });
}

function adjustAttributes(held, child) {
  for (const { name, value } of child.attributes) if (held.getAttribute(name) !== value) held.setAttribute(name, value);
  for (const { name } of [...held.attributes]) if (!child.hasAttribute(name)) held.removeAttribute(name);
}

// Returns the server's JSON response, or throws an Error with its text.
export async function asked(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()) || answer.statusText);
  return answer.json();
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

const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DATE = new Intl.DateTimeFormat("en-GB");

export function clock(at_ms, withMs = false) {
  if (!at_ms) return "–";
  const at = new Date(at_ms);
  const time = TIME.format(at) + (withMs ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "");
  return at_ms >= new Date().setHours(0, 0, 0, 0) ? time : `${DATE.format(at)} ${time}`;
}

export function colour(tier) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${tier}`).trim() || "gray";
}
