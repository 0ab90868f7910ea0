// The page of one key: tiers over time, reads and lives.

import { TIER_NAMES, asked, bytes, clock, count, duration, drawn, element, fill, milliseconds, table } from "./text.js";

const TIER_OF_STATE = {
  Lambda: "lambda", RestrictedLambda: "lambda", RedisBootup: "lambda", SeedRedis: "lambda", RedisRunning: "redis",
};
const LEAST_MS = 1, WIDTH = 1000, BAND = [24, 50], PLOT = [70, 180];

// Shows a key. Returns whether the key exists and its page was still open when the response arrived.
export async function showKey(parent, key, isWanted) {
  const found = await asked(`key?key=${encodeURIComponent(key)}`);
  if (!isWanted()) return false;
  const back = element("p", {}, element("a", { href: "#" }, "← all keys"));
  const title = element("h2", {}, key);
  if (!found) {
    fill(parent, back, element("section", {}, title, element("p", {}, "Unknown key: there was no request for it lately.")));
    return false;
  }
  const parts = [back, element("section", {}, title, ...strip(found))];
  parts.push(element("section", {}, element("h2", {}, "Why it is there"), element("pre", {}, ...found.explained.split("\n").map((line) => element("span", {}, `${line}\n`)))));
  if (found.slices?.tiers.length) parts.push(element("section", {}, element("h2", {}, "Slices"), ...slices(found.slices)));
  parts.push(element("section", {}, element("h2", {}, "Lives"), lives(found)));
  fill(parent, ...parts);
  return true;
}

// Returns the periods in which a tier above S3 served the key.
function bands(found) {
  const lived = livedBands(found);
  return [...lived, ...guestBands(found, lived)].sort((one, other) => one.from - other.from);
}

// Returns the periods of the key's lives. If a life has no cache function, S3 serves while Redis boots.
function livedBands(found) {
  const made = [];
  for (const { steps } of found.lives) {
    const hasFunction = steps.some(({ state }) => state === "Lambda" || state === "RestrictedLambda");
    steps.forEach((step, place) => {
      const tier = TIER_OF_STATE[step.state];
      const end = steps[place + 1]?.atMs ?? found.nowMs;
      if (tier && (hasFunction || tier !== "lambda")) made.push({ tier, state: step.state, from: step.atMs, to: end });
    });
  }
  return made;
}

// Returns the periods as a guest, when the node ran and the key had no life of its own. The current period has a known
// start. Past periods last from the first to the last read that Redis served. Nodes without guests are skipped, because
// Redis serves keys for a moment after their life.
function guestBands(found, lived) {
  if (!found.isEverGuest) return [];
  const made = [];
  let run = null;
  for (const { tier, at_ms } of found.reads) {
    const isLived = lived.some(({ from, to }) => from <= at_ms && at_ms <= to);
    if (tier !== "redis" || isLived || (found.guestSinceMs && at_ms >= found.guestSinceMs)) { run = null; continue; }
    if (!run) made.push(run = { tier: "redis", state: "Guest", from: at_ms });
    run.to = at_ms;
  }
  if (found.guestSinceMs) made.push({ tier: "redis", state: "Guest", from: found.guestSinceMs, to: found.nowMs });
  return made;
}

function strip(found) {
  const served = bands(found);
  const times = [...found.reads.map((read) => read.at_ms), ...served.map((band) => band.from)];
  if (!times.length) return [element("p", {}, "No reads are known.")];
  const first = Math.min(...times), span = Math.max(found.nowMs - first, 1000);
  const x = (at) => Math.max(0, ((at - first) / span) * WIDTH);
  const most = Math.max(10, ...found.reads.map((read) => read.latency_ms ?? 0));
  const y = (latency) => PLOT[1] - (Math.log(Math.max(latency, LEAST_MS)) / Math.log(most)) * (PLOT[1] - PLOT[0]);
  const svg = drawn("svg", { class: "strip", viewBox: `0 0 ${WIDTH} 210`, preserveAspectRatio: "none", role: "img" });
  svg.append(drawn("rect", { x: 0, y: BAND[0], width: WIDTH, height: BAND[1] - BAND[0], fill: "var(--s3-fill)" }));
  for (const band of served) {
    const rect = drawn("rect", { x: x(band.from), y: BAND[0], width: Math.max(1, x(band.to) - x(band.from)), height: BAND[1] - BAND[0], fill: `var(--${band.tier})` });
    rect.append(Object.assign(drawn("title"), { textContent: `${band.state}, ${clock(band.from)}, ${duration(band.to - band.from)}` }));
    svg.append(rect);
  }
  for (const read of found.reads) {
    const tall = read.tier ? y(read.latency_ms) : PLOT[1] - 20;
    svg.append(drawn("line", { x1: x(read.at_ms), x2: x(read.at_ms), y1: PLOT[1], y2: tall, stroke: read.tier ? `var(--${read.tier})` : "var(--soft)", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" }));
  }
  svg.append(drawn("line", { x1: 0, x2: WIDTH, y1: PLOT[1], y2: PLOT[1], class: "axis", "vector-effect": "non-scaling-stroke" }));
  svg.setAttribute("aria-label", summary(found, served, first));
  const legend = element("ul", { class: "legend" }, ...["redis", "lambda", "s3"].map((tier) =>
    element("li", {}, element("span", { class: `dot ${tier}-ink` }), TIER_NAMES[tier])));
  const ends = `${clock(first)} to ${clock(found.nowMs)}. Above: the tier of the state that the key was in. Below: a line for each read`;
  const note = found.areReadsKnown
    ? `${ends}, in the colour of what answered, as tall as it took, on a logarithmic scale up to ${milliseconds(most)}.`
    : `${ends} that its row remembers; which tier answered and how long it took is not known without traces.`;
  return [legend, svg, element("p", { class: "note" }, note)];
}

function summary(found, served, first) {
  const each = served.map((band) => `${band.state} from ${clock(band.from)} for ${duration(band.to - band.from)}`);
  const otherwise = found.areReadsKnown ? "No faster tier served it" : "No life of its own is known";
  return `${found.reads.length} reads since ${clock(first)}. ${each.join("; ") || otherwise}`;
}

// Returns the slices of a large object in the tiers that readers share.
function slices({ count: all, sampled, tiers }) {
  const columns = [{ name: "Tier" }, { name: "Its slices", number: true }, { name: "Stored", number: true }, { name: "Bytes", number: true }];
  const rows = tiers.map(({ tier, slices, stored, stored_bytes, problem }) =>
    [tier, count(slices), stored === null ? element("span", { title: problem }, "unknown") : count(stored), stored === null ? "–" : bytes(stored_bytes)]);
  const parts = [table("Slices", columns, rows)];
  if (sampled < all) parts.push(element("p", { class: "note" }, `Of ${count(sampled)} slices, evenly spread over the object's ${count(all)}.`));
  return parts;
}

function lives(found) {
  if (found.trouble) return element("p", { class: "bad" }, `They cannot be read: ${found.trouble.what}`);
  if (!found.lives.length) return element("p", {}, "It has had none: S3 has served it, or a node as a guest.");
  const columns = [{ name: "State" }, { name: "Entered" }, { name: "Lasted", number: true }];
  const made = found.lives.toReversed().map((life) => {
    const rows = life.steps.map((step, place) => {
      const next = life.steps[place + 1]?.atMs ?? (step.state ? found.nowMs : null);
      const state = step.state || (step.failure ? element("span", { class: "bad" }, `failed: ${step.failure}`) : "end");
      return [state, clock(step.atMs, true), next === null ? "" : duration(next - step.atMs)];
    });
    const name = life.url ? element("a", { href: life.url, rel: "noreferrer" }, life.name) : life.name;
    return element("div", {}, element("h3", {}, name), rows.length ? table(life.name, columns, rows) : "Step Functions has no such execution any more.");
  });
  return element("div", { class: "lives" }, ...made);
}
