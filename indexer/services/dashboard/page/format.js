// Numbers and elements. Text only ever becomes text, never markup.

const whole = new Intl.NumberFormat("en");

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(Math.round(n)));

export function rate(n) {
  if (n === null || n === undefined) return "–";
  return n > 0 && n < 10 ? n.toFixed(1) : count(n);
}

export function percent(share) {
  if (share > 0.999 && share < 1) return "99.9 %";
  return `${(100 * share).toFixed(share > 0 && share < 1 ? 1 : 0)} %`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (Math.abs(seconds) >= size) return `${(seconds / size).toFixed(1)} ${name}`;
  }
  if (seconds > 0 && seconds < 0.1) return `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return seconds !== 0 && Math.abs(seconds) < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(n) < 1024) return `${unit === "B" ? Math.round(n) : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} TiB`;
}

export function element(tag, { text, className, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Replace what is shown only where it changed, so that selections and focus stay.
export function show(place, ...children) {
  const before = document.createElement("div");
  before.append(...children);
  if (place.innerHTML !== before.innerHTML) place.replaceChildren(...before.childNodes);
}

export function facts(place, pairs) {
  show(place, ...pairs.flatMap(([name, text]) => [element("dt", { text: name }), element("dd", { text })]));
}

export function table(label, columns, rows) {
  const head = element("tr", {}, ...columns.map(([name, className]) => element("th", { text: name, className, scope: "col" })));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell, index) => {
      const td = element("td", { className: columns[index][1], "data-label": columns[index][0] });
      td.append(cell);
      return td;
    })));
  const made = element("table", { className: "stack" }, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { className: "scroll", role: "region", "aria-label": label, tabindex: "0" }, made);
}
