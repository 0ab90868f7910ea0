// Chart of reads per second by tier over the last minutes.

import { TIERS, TIER_NAMES, clock, colour, element } from "./text.js";

const HEIGHT = 190;

export class Chart {
  constructor(parent, legend) {
    this.parent = parent;
    this.legend = legend;
    this.tiers = "";
    this.series = null;
    new ResizeObserver(() => this.plot?.setSize({ width: this.parent.clientWidth, height: HEIGHT })).observe(parent);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.tiers = ""; this.show(this.series); });
  }

  show(series) {
    this.series = series;
    if (!series) return;
    const tiers = TIERS.filter((tier) => tier in series.tiers);
    const data = [series.at, ...tiers.map((tier) => series.tiers[tier])];
    if (this.plot && tiers.join() === this.tiers) this.plot.setData(data);
    else this.make(tiers, data);
    const now = tiers.map((tier) => `${TIER_NAMES[tier]} ${series.tiers[tier].at(-1)}`);
    this.parent.setAttribute("aria-label", now.length ? `Reads a second by tier, now: ${now.join(", ")}` : "No reads lately");
  }

  make(tiers, data) {
    this.plot?.destroy();
    this.tiers = tiers.join();
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    const time = { ...axis, values: (_, seconds) => seconds.map((at) => clock(at * 1000)), space: 90 };
    const options = {
      width: this.parent.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [null, 28, null, null], // half the width of the last time label
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
      axes: [time, axis],
      series: [{}, ...tiers.map((tier) => ({ stroke: colour(tier), width: 2, points: { show: false } }))],
    };
    this.plot = new uPlot(options, data, this.parent);
    this.legend.replaceChildren(
      ...tiers.map((tier) => element("li", {}, element("span", { class: `dot ${tier}-ink` }), TIER_NAMES[tier])),
    );
  }
}
