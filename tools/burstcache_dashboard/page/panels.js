// The panels of the page, which are redrawn when their figures change.

import { TIER_NAMES, bytes, clock, count, duration, element, fill, milliseconds, plural, table, usd } from "./text.js";

export function showStatus(parent, status) {
  const { pause, live, nodesOn, nodes } = status;
  const on = live || nodesOn.length
    ? `${plural(live, "key")} above S3, ${nodesOn.length} of ${plural(nodes, "node")} on.`
    : "";
  let said = on ? `On: ${on}` : "Ready and off: S3 serves every key, no node runs.";
  if (pause) {
    const until = pause.untilMs ? ` until ${clock(pause.untilMs)}` : "";
    said = `Paused since ${clock(pause.sinceMs)}${until}: ${pause.reason}. Nothing starts; ${on ? `still on: ${on}` : "S3 serves every key."}`;
  }
  if (parent.textContent !== said) parent.textContent = said;
}

// Shows which data of a section could not be read, and since when. The previous data remain visible.
export function showTroubles(parent, troubles) {
  fill(parent, ...troubles.map(({ name, sinceMs, what }) => element("span", {}, `Since ${clock(sinceMs)} not readable: ${name}: ${what}`)));
}

export function showFigures(parent, note, figures, receipt, isLocal) {
  const { reads, savedMs } = figures;
  const each = savedMs !== null && reads ? ` ${milliseconds(savedMs / reads)} a read` : "";
  const pairs = [
    ["Saved for readers", savedMs === null ? "not known yet" : duration(savedMs), each],
    ["Cost so far", usd(receipt?.usd), figures.sinceMs ? ` since ${clock(figures.sinceMs)}` : ""],
    ["Cost of a month like this", usd(receipt?.monthUsd), receipt ? ` ${usd(receipt.idleMonthUsd)} of it idle` : ""],
    ["Reads", count(reads), shareAbove(figures)],
  ];
  fill(parent, ...pairs.map(([name, value, small]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value, element("small", {}, small)))));
  const said = isLocal
    ? "Reads through the front door, timed there; what programs read through the library is not seen. Saved: against S3's median. Prices are AWS's: nothing is billed here."
    : "Reads of the last day through the proxy, from CloudWatch, up to five minutes late; what programs read through the library is not in its metrics. Saved: against S3's median.";
  if (note.textContent !== said) note.textContent = said;
}

function shareAbove(figures) {
  const below = figures.tiers.find(({ tier }) => tier === "s3")?.reads ?? 0;
  return figures.reads ? ` ${Math.round(100 * (1 - below / figures.reads))} % without S3` : "";
}

export function showTiers(parent, figures) {
  const columns = [
    { name: "Tier" }, { name: "Reads", number: true, minor: true }, { name: "Share", number: true },
    { name: "Median", number: true }, { name: "90 %", number: true, minor: true }, { name: "99 %", number: true },
    { name: "Bytes", number: true, minor: true },
  ];
  const rows = figures.tiers.map((use) => [
    element("span", {}, element("span", { class: `dot ${use.tier}-ink` }), TIER_NAMES[use.tier]),
    count(use.reads), `${((100 * use.reads) / figures.reads).toFixed(1)} %`,
    milliseconds(use.p50_ms), milliseconds(use.p90_ms), milliseconds(use.p99_ms), bytes(use.bytes),
  ]);
  fill(parent, rows.length ? table("Share and latency by tier", columns, rows) : element("p", { class: "note" }, "No reads yet."));
}

// `isPartial`: some data could not be read, so an empty list does not mean that there are no failures.
export function showFailures(parent, failures, isPartial) {
  if (!failures.length) return fill(parent, ...(isPartial ? [] : [element("p", {}, "Nothing.")]));
  const columns = [{ name: "When" }, { name: "What", wide: true }];
  fill(parent, table("What failed", columns, failures.map(({ atMs, what }) => [clock(atMs), what])));
}

export function showNodes(parent, nodes) {
  if (!nodes.length) return fill(parent, element("p", {}, "This stack has no Redis."));
  const columns = [
    { name: "Node" }, { name: "Phase", wide: true }, { name: "Up for" }, { name: "Leases", number: true },
    { name: "Objects", number: true, wide: true }, { name: "Guests", minor: true }, { name: "Runs on", minor: true }, { name: "Held by hand until", minor: true }, { name: "Last boot", minor: true },
  ];
  const rows = nodes.map((node) => [
    node.node,
    node.bar ? `${node.bar}; off until ${clock(node.notBeforeMs)}` : node.phase,
    uptime(node), count(node.keys.length), memory(node), node.guests ? "taken" : "no", node.runsOn || "–", clock(node.heldMs),
    clock(node.lastBootMs),
  ]);
  const note = "Objects: the sizes of the keys that their rows place on the node, guests included, of the memory that Redis takes, three quarters of the instance's or task's; Redis itself is not asked.";
  fill(parent, table("Nodes", columns, rows), element("p", { class: "note" }, note));
}

// Full nodes, and the parameter whose change gives them more memory. Nothing while every node has room.
export function showScaling(parent, scaling) {
  if (!scaling) return fill(parent);
  const lines = [...scaling.full.map(({ node, what }) => [node, what]), [scaling.pays ? "Change" : "More memory", scaling.change]];
  fill(parent, ...lines.map(([name, what]) => element("p", {}, element("strong", {}, `${name}: `), what)));
}

// Gateways of any bucket: they need no stack. A gateway that does not answer has its problem in place of figures.
export function showGateways(parent, gateways) {
  const columns = [
    { name: "Bucket" }, { name: "Endpoint", wide: true }, { name: "Requests", number: true }, { name: "Hits", number: true },
    { name: "Sent", number: true, minor: true }, { name: "S3 requests", number: true, minor: true }, { name: "Connections", number: true, minor: true },
    { name: "Memory", number: true, minor: true }, { name: "Disk", number: true, minor: true }, { name: "Errors", number: true }, { name: "Refused", number: true, minor: true },
  ];
  const rows = gateways.map((each) => each.problem
    ? [each.bucket, `${each.url}: ${each.problem}`, ...Array(9).fill("–")]
    : [
      each.bucket, each.url, count(each.requests), each.hitShare === null ? "–" : `${(100 * each.hitShare).toFixed(1)} %`,
      bytes(each.sentBytes), count(each.s3Requests), count(each.connections), bytes(each.memoryBytes), bytes(each.diskBytes),
      count(each.failed), count(each.refused),
    ]);
  const note = "Since each began, all its processes together. Hits: GETs and HEADs of objects without S3. Errors: 5xx. Refused: no valid signature.";
  fill(parent, table("Gateways of this machine", columns, rows), element("p", { class: "note" }, note));
}

function memory({ objectBytes, capacityBytes }) {
  return capacityBytes ? `${objectBytes ? bytes(objectBytes) : 0} of ${bytes(capacityBytes)}` : bytes(objectBytes);
}

// Rounds down to whole minutes after the first, so that the table changes at most once a minute.
function uptime(node) {
  const since = node.readyMs || node.bootedMs;
  const up = Math.max(0, Date.now() - since);
  return since ? duration(up < 60_000 ? up : up - (up % 60_000)) : "–";
}

const FIRST_ROWS = 5;

// Shows the most expensive rows, and all rows once the button has been pressed.
export function showBill(parent, button, receipt) {
  const columns = [{ name: "Item", wide: true }, { name: "Quantity", number: true }, { name: "Unit", minor: true }, { name: "So far", number: true }];
  const lines = receipt.lines.toSorted((one, other) => other.usd - one.usd);
  const isWhole = button.ariaExpanded === "true" || lines.length <= FIRST_ROWS;
  const shown = isWhole ? lines : lines.slice(0, FIRST_ROWS), rest = lines.slice(shown.length);
  const rows = shown.map((line) => [
    line.text + (line.idle ? " (always)" : ""), line.quantity.toLocaleString("en-GB", { maximumSignificantDigits: 4 }), line.unit, usd(line.usd),
  ]);
  if (rest.length) rows.push([`${rest.length} others`, "", "", usd(rest.reduce((sum, line) => sum + line.usd, 0))]);
  fill(parent, table("The bill so far", columns, rows, ["Sum", "", "", usd(receipt.usd)]), element("p", { class: "note" }, receipt.note));
  button.hidden = lines.length <= FIRST_ROWS;
  const said = isWhole ? "Fewer rows" : `All ${lines.length} rows`;
  if (button.textContent !== said) button.textContent = said;
}

export function showRivals(parent, found, receipt) {
  if (!found.rivals.length) return fill(parent, element("p", {}, "No requests yet."));
  const columns = [
    { name: "What", wide: true }, { name: "These requests", number: true }, { name: "A month of them", number: true },
    { name: "Without S3", number: true, minor: true }, { name: "For what", wide: true, minor: true },
  ];
  const own = [
    element("strong", {}, "Burstcache, as it ran"), found.complete ? usd(receipt?.usd) : "–", usd(receipt?.monthUsd), "–",
    found.complete ? "the bill above" : "the bill above, which is for more requests",
  ];
  const rows = found.rivals.map((rival) => [
    rival.name, usd(rival.usd), usd(rival.monthUsd), `${rival.inMemoryPct.toFixed(1)} %`,
    rival.lines.map((line) => `${line.text} ${usd(line.usd)}`).join(", ") + (rival.note ? `; ${rival.note}` : ""),
  ]);
  const which = found.complete ? plural(found.requests, "request") : `The newest ${count(found.requests)} of ${count(found.reads)} requests`;
  const what = found.exact
    ? `${which} since ${clock(found.sinceMs)}, each as it came`
    : `${which} in the times that CloudWatch counted them, spread over the keys by what their rows remember: which key each was for is not known`;
  fill(parent, table("What others would have billed", columns, [own, ...rows]),
    element("p", { class: "note" }, `${what}. Readers are on the internet, through the same front door where a rival has none. Prices by the hour are for the same time.`));
}
