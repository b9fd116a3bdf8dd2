// Throughput over the last minutes, from what was answered while the page is open.

import { element, rate } from "./format.js";

const KEPT_MS = 10 * 60 * 1000;
const WIDTH = 600;
const HEIGHT = 140;
const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export class Chart {
  constructor(place) {
    this.place = place;
    this.samples = [];
  }

  add(found) {
    const now = Date.now();
    this.samples.push([now, found.blocks_per_second, found.events_per_second]);
    while (this.samples[0][0] < now - KEPT_MS) this.samples.shift();
    this.paint(now);
  }

  paint(now) {
    const most = Math.max(1, ...this.samples.flatMap(([, blocks, events]) => [blocks, events]));
    const first = this.samples[0][0];
    const span = Math.max(now - first, 30000);
    const points = (index) =>
      this.samples
        .map((sample) => {
          const x = WIDTH - ((now - sample[0]) / span) * WIDTH;
          const y = HEIGHT - (sample[index] / most) * (HEIGHT - 16);
          return `${x.toFixed(1)},${y.toFixed(1)}`;
        })
        .join(" ");
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    picture.append(
      svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      svg("line", { x1: 0, x2: WIDTH, y1: 16, y2: 16 }),
      svg("polyline", { class: "events", points: points(2) }),
      svg("polyline", { class: "blocks", points: points(1) }),
    );
    const ago = span < 60000 ? `${Math.round(span / 1000)} s` : `${Math.round(span / 60000)} min`;
    this.place.replaceChildren(
      picture,
      element("span", { className: "most", text: `${rate(most)} blocks/s`, "aria-hidden": "true" }),
      element("span", { className: "span", text: `${ago} ago`, "aria-hidden": "true" }),
    );
    const last = this.samples.at(-1);
    this.place.setAttribute(
      "aria-label",
      `Now ${rate(last[1])} blocks and receipts and logs of ${rate(last[2])} blocks a second; ` +
        `at most ${rate(most)} in the last ${ago}`,
    );
  }
}
