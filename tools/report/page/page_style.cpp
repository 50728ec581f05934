// The style of a report, light and dark, for screens from a phone's width on, and its tooltip.
#include "tools/report/page/page.h"

namespace booster::report {

const char* const page_style = R"css(
:root {
  --page: #f6f7f9; --card: #fff; --text: #1c2430; --soft: #5d6877; --rule: #dfe3e8;
  --grid: #e6e9ee; --warn: #fff4dd; --warn-rule: #e2b85c;
  --k0: #2563c9; --k1: #d9541e; --k2: #12805c; --k3: #a33ea1;
  --k4: #b07d00; --k5: #0b7fa5; --k6: #c2255c; --k7: #5c6670;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181e; --card: #1d232b; --text: #e4e8ee; --soft: #98a3b1; --rule: #333c47;
    --grid: #2c343e; --warn: #33291a; --warn-rule: #8a6a2a;
    --k0: #6ea8ff; --k1: #ff9466; --k2: #4fd1a1; --k3: #e08bdc;
    --k4: #e8bd52; --k5: #58c7ec; --k6: #ff86ac; --k7: #aab4c0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
header, main, footer { max-width: 1180px; margin: 0 auto; padding: 0 16px; }
header { padding-top: 24px; }
footer { padding-bottom: 32px; color: var(--soft); font-size: 13px; }
h1 { margin: 0; font-size: 26px; overflow-wrap: anywhere; }
h2 { margin: 32px 0 10px; font-size: 19px; }
h3 { margin: 18px 0 8px; font-size: 16px; }
h4 { margin: 14px 0 6px; font-size: 14px; color: var(--soft); }
small { color: var(--soft); font-size: 12.5px; }
code { font: 13px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--rule);
  border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: left; vertical-align: top; white-space: nowrap; }
td code, th code { white-space: pre-wrap; overflow-wrap: anywhere; }
td:first-child code { overflow-wrap: normal; }
thead th { color: var(--soft); font-size: 13px; font-weight: 600; }
tbody tr { border-top: 1px solid var(--rule); }
tbody th { font-weight: 500; }
th .run { display: block; min-width: 110px; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 8px; }
.charts { display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.images { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
figure { margin: 0; overflow-wrap: anywhere; font-size: 13.5px; line-height: 1.4; }
figure img { display: block; width: 100%; aspect-ratio: 1; object-fit: contain;
  background: var(--page); border-radius: 4px; margin-bottom: 6px; }
.none { color: var(--soft); }
div.none { aspect-ratio: 1; display: grid; place-items: center; }
.legend { margin: 8px 0 12px; display: flex; flex-wrap: wrap; gap: 4px 18px; }
.run { white-space: normal; overflow-wrap: anywhere; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
.problems { margin-top: 12px; padding: 8px 14px; background: var(--warn); border-radius: 8px;
  border: 1px solid var(--warn-rule); overflow-wrap: anywhere; }
.problems p { margin: 0; } .problems ul { margin: 2px 0 6px; padding-left: 20px; }
details { margin: 10px 0; } summary { cursor: pointer; color: var(--soft); margin-bottom: 8px; }
svg.chart { display: block; width: 100%; height: auto; font-size: 11.5px; touch-action: pan-y; }
svg.chart text { fill: var(--soft); }
svg.chart .title { fill: var(--text); font-weight: 600; font-size: 13px; }
svg.chart .note { fill: var(--soft); font-weight: 400; font-size: 11.5px; }
svg.bar { display: block; width: 100%; height: 18px; border-radius: 5px; }
.grid { stroke: var(--grid); }
.line { fill: none; stroke-width: 1.7; stroke-linejoin: round; }
.dashed { stroke-dasharray: 5 4; }
.dot { fill: var(--card); stroke-width: 1.6; }
.guide { stroke: var(--soft); stroke-dasharray: 2 3; }
.tip { position: fixed; z-index: 2; pointer-events: none; display: none; max-width: 80vw;
  background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: 5px 9px;
  font-size: 13px; box-shadow: 0 4px 14px rgb(0 0 0 / .18); overflow-wrap: anywhere; }
.c0 { stroke: var(--k0); } .c1 { stroke: var(--k1); } .c2 { stroke: var(--k2); }
.c3 { stroke: var(--k3); } .c4 { stroke: var(--k4); } .c5 { stroke: var(--k5); }
.c6 { stroke: var(--k6); } .c7 { stroke: var(--k7); }
.b0 { background: var(--k0); } .b1 { background: var(--k1); } .b2 { background: var(--k2); }
.b3 { background: var(--k3); } .b4 { background: var(--k4); } .b5 { background: var(--k5); }
.b6 { background: var(--k6); } .b7 { background: var(--k7); }
.f0 { fill: var(--k0); } .f1 { fill: var(--k1); } .f2 { fill: var(--k2); }
.f3 { fill: var(--k3); } .f4 { fill: var(--k4); } .f5 { fill: var(--k5); }
.f6 { fill: var(--k6); } .f7 { fill: var(--k7); }
@media print { details:not([open]) { display: none; } }
)css";

// Shows the values under the pointer: for each line, at its point nearest to the pointer.
const char* const page_script = R"js(
"use strict";
const tip = document.body.appendChild(document.createElement("div"));
tip.className = "tip";

function pointsOf(path) {
  const numbers = path.dataset.points.split(" ").map(Number), points = [];
  for (let i = 0; i + 3 < numbers.length; i += 4)
    points.push({x: numbers[i], y: numbers[i + 1], px: numbers[i + 2]});
  return points;
}

function nearest(points, px) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].px < px) low = middle + 1; else high = middle;
  }
  const before = points[Math.max(low - 1, 0)];
  return px - before.px < points[low].px - px ? before : points[low];
}

function row(path, text) {
  const line = document.createElement("div"), key = document.createElement("span");
  key.className = "key b" + /\bc(\d)/.exec(path.getAttribute("class"))[1];
  line.append(key, text);
  return line;
}

for (const svg of document.querySelectorAll("svg.chart")) {
  const lines = [...svg.querySelectorAll("path.line")]
    .map(path => ({path, points: pointsOf(path)}));
  if (lines.length === 0) continue;
  const guide = document.createElementNS("http://www.w3.org/2000/svg", "line");
  guide.setAttribute("class", "guide");
  guide.setAttribute("y1", "34");
  guide.setAttribute("y2", "222");
  const hide = () => { tip.style.display = "none"; guide.remove(); };
  const show = event => {
    const box = svg.getBoundingClientRect();
    const px = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const found = lines.map(line => ({path: line.path, at: nearest(line.points, px)}));
    found.sort((a, b) => Math.abs(a.at.px - px) - Math.abs(b.at.px - px));
    const step = found[0].at;
    guide.setAttribute("x1", step.px);
    guide.setAttribute("x2", step.px);
    svg.append(guide);
    tip.replaceChildren("step " + step.x, ...lines.map(line => {
      const at = nearest(line.points, px);
      const other = at.x === step.x ? "" : " (step " + at.x + ")";
      return row(line.path, line.path.dataset.name + ": " + at.y + other);
    }));
    tip.style.display = "block";
    const width = tip.offsetWidth, left = event.clientX + 14;
    tip.style.left = (left + width > innerWidth ? Math.max(4, event.clientX - width - 14) : left)
      + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}
)js";

}  // namespace booster::report
