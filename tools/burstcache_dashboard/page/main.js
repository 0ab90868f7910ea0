// Keeps the current state of the stack, applies the server's events to it, and updates each part of the page.

import { Chart } from "./chart.js";
import { Diagram } from "./diagram.js";
import { showKey } from "./key.js";
import { Keys } from "./keys.js";
import { showBill, showFailures, showFigures, showGateways, showNodes, showRivals, showScaling, showStatus, showTiers, showTroubles } from "./panels.js";
import { asked, clock } from "./text.js";
import { showTrace } from "./trace.js";

const KEY_EVERY_MS = 3000, ABOUT_EVERY_MS = 3000;
const at = (id) => document.getElementById(id);
const state = {};
const chart = new Chart(at("chart"), at("legend"));
const keys = new Keys(at("keys"), at("filter"), at("state"), at("shown"));
let troubledSince = 0;
const about = await knownAbout();
const diagram = new Diagram(at("diagram"), about.states);

at("about").textContent = `${about.stack}, ${about.isLocal ? "on this machine" : about.region}${about.policy ? `, policy ${about.policy}` : ""}`;
document.title = `${about.stack} · Burstcache`;

// Loads the data that the page needs to start, with retries until it succeeds.
async function knownAbout() {
  for (;;) {
    try {
      return await asked("about");
    } catch (error) {
      troubled(`not readable: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, ABOUT_EVERY_MS));
  }
}

function show(news) {
  if (news.states) { diagram.show(news.states); keys.states(news.states); }
  if (news.status) showStatus(at("on"), news.status);
  if (state.figures && (news.figures || news.receipt)) showFigures(at("figures"), at("figures-note"), state.figures, state.receipt, about.isLocal);
  if (news.figures) showTiers(at("tiers"), state.figures);
  if (news.series) chart.show(news.series);
  if (news.failures || news.troubles) showFailures(at("failed"), state.failures, state.troubles.failed.length > 0);
  if (news.nodes) showNodes(at("nodes"), news.nodes);
  if ("scaling" in news) showScaling(at("scaling"), news.scaling);
  if (news.gateways) {
    at("gateways-section").hidden = news.gateways.length === 0;
    showGateways(at("gateways"), news.gateways);
  }
  if (news.receipt) showBill(at("bill"), at("all-rows"), news.receipt);
  for (const [place, troubles] of Object.entries(news.troubles ?? {})) showTroubles(at(`${place}-trouble`), troubles);
}

function take(event, isAll) {
  const began = performance.now();
  const { keys: rows, gone, atMs, ...news } = JSON.parse(event.data);
  Object.assign(state, news);
  if (isAll) keys.replace(rows ?? {});
  else if (rows || gone) keys.change(rows ?? {}, gone ?? []);
  show(news);
  troubledSince = 0;
  said("", "Live");
  performance.measure(isAll ? "all" : "change", { start: began });
}

// Shows an error that prevents all updates of the page.
function troubled(what) {
  troubledSince ||= Date.now();
  said("bad", `Since ${clock(troubledSince)} ${what}`);
}

function said(kind, text) {
  const place = at("connection");
  place.className = kind;
  if (place.textContent !== text) place.textContent = text;
}

// Hidden pages disconnect, because the server reads the stack while a page is connected, which costs AWS fees.
let events = null;
function follow() {
  if (document.hidden || events) return;
  events = new EventSource("events");
  events.addEventListener("all", (event) => take(event, true));
  events.addEventListener("change", (event) => take(event, false));
  events.addEventListener("trouble", (event) => troubled(`not readable: ${JSON.parse(event.data).what}`));
  events.addEventListener("error", () => troubled("the dashboard's server does not answer; trying again …"));
  events.addEventListener("open", checkServer);
  events.addEventListener("updated", checkServer);
}
function leave() {
  events?.close();
  events = null;
  troubledSince = 0;
  said("", "Paused while this page is hidden");
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return leave();
  said("", "Connecting …");
  follow();
  route(false);
});
follow();

// Reloads the page if `about` has changed: a new server has a new token, and an updated stack may have another policy.
async function checkServer() {
  const now = await asked("about").catch(() => about);
  if (JSON.stringify(now) !== JSON.stringify(about)) location.reload();
}

at("compare").addEventListener("click", async () => {
  at("compare").disabled = true;
  at("comparing").textContent = "Replaying the requests for each of them …";
  try {
    showRivals(at("rivals"), await asked("rivals"), state.receipt);
    at("comparing").textContent = `As of ${clock(Date.now())}.`;
  } catch (error) {
    at("comparing").textContent = `It failed: ${error.message}`;
  }
  at("compare").disabled = false;
});

at("all-rows").addEventListener("click", () => {
  at("all-rows").setAttribute("aria-expanded", at("all-rows").ariaExpanded !== "true");
  showBill(at("bill"), at("all-rows"), state.receipt);
});

at("benchmarks-link").hidden = !about.benchmarkToken;

const keyOfPage = () => new URLSearchParams(location.hash.slice(1)).get("key");
let timer = 0, newest = 0;
async function route(isNew = true) {
  const turn = ++newest; // responses of earlier turns are dropped
  clearTimeout(timer);
  const key = keyOfPage();
  at("overview").hidden = key !== null;
  at("key-page").hidden = key === null;
  if (isNew) {
    for (const id of ["key", "trace"]) at(id).replaceChildren();
    at("trace-section").hidden = true;
  }
  if (key === null || (document.hidden && !isNew)) return; // reloaded when the page becomes visible
  try {
    const isKnown = await showKey(at("key"), key, () => turn === newest);
    if (isKnown && at("trace-section").hidden) {
      at("trace-section").hidden = false;
      showTrace(at("trace"), key, about, () => keyOfPage() === key);
    }
  } catch (error) {
    if (!troubledSince) said("bad", `The key cannot be shown: ${error.message}`);
  }
  if (turn !== newest) return;
  if (isNew) at("main").focus();
  timer = setTimeout(() => route(false), KEY_EVERY_MS);
}
addEventListener("hashchange", () => route());
route();
