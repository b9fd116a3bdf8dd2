// Ask, show, ask again.

import { ChainMap } from "./map.js";
import { Chart } from "./chart.js";
import * as panels from "./panels.js";

const EVERY_MS = 2000;

const map = new ChainMap(get);
const chart = new Chart(document.getElementById("rate-chart"));
const live = document.getElementById("live");
const liveText = document.getElementById("live-text");
let answeredAt = null;

async function get(path) {
  const response = await fetch(path, { headers: { accept: "application/json" } });
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found.error || `the server answered ${response.status}`);
  return found;
}

async function look() {
  try {
    const status = await get("api/status");
    await map.refresh();
    panels.showAll(status, map.missing());
    chart.add(status.progress.rate);
    answeredAt = Date.now();
    say("live", "live");
  } catch (error) {
    const since = answeredAt ? ` What is shown is ${Math.round((Date.now() - answeredAt) / 1000)} s old.` : "";
    say("lost", `no answer: ${error.message}.${since}`);
  }
}

function say(state, text) {
  live.dataset.state = state;
  if (liveText.textContent !== text) liveText.textContent = text;
}

async function loop() {
  if (!document.hidden) await look();
  setTimeout(loop, EVERY_MS);
}

function chooseTheme() {
  const select = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = select.value || (system.matches ? "dark" : "light");
    map.paint();
  };
  try { select.value = localStorage.getItem("theme") || ""; } catch { /* private windows have none */ }
  select.addEventListener("change", () => {
    try { localStorage.setItem("theme", select.value); } catch { /* see above */ }
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

chooseTheme();
loop();
