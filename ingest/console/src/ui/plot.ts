// uPlot in the console's colours. Only chart.tsx imports it, when it is needed.

import "./language.ts"; // before uPlot
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { ChartProps } from "./chart.tsx";
import { compact, local } from "./format.ts";

/** What is drawn are counts and milliseconds: an axis has no parts of one. */
const wholes = Array.from({ length: 10 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

/** alone finds values without a neighbour: no line would show them. */
const alone = (values: uPlot.TypedArray | readonly (number | null | undefined)[]) => Array.from(values.keys()).filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);

export function draw(at: HTMLElement, first: ChartProps) {
  let props = first;
  let plot: uPlot | undefined;
  // A canvas knows no light-dark(): an element that has the colour does.
  const probe = document.createElement("i");
  probe.hidden = true;
  at.append(probe);
  const css = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const clock = (s: number) => local(s * 1000, s * 1000, false);
  const tip = document.createElement("div");
  tip.className = "chart-tip";
  tip.hidden = true;

  const data = (): uPlot.AlignedData => [props.times, ...props.series.map((s) => s.values)] as uPlot.AlignedData;
  const hover = (u: uPlot) => {
    const i = u.cursor.idx;
    const left = u.cursor.left ?? -1;
    tip.hidden = i == null || left < 0;
    if (tip.hidden || i == null) return;
    tip.replaceChildren(line("b", clock(props.times[i] ?? 0)));
    for (const s of props.series) {
      const v = s.values[i];
      tip.append(line("span", `${s.name} ${v == null ? "–" : (s.format ?? props.format ?? compact)(v)}`));
    }
    const right = left > u.over.clientWidth / 2;
    tip.style.left = `${left + u.over.offsetLeft + (right ? -10 : 10)}px`;
    tip.style.transform = right ? "translateX(-100%)" : "none";
  };
  const line = (tag: string, text: string) => {
    const e = document.createElement(tag);
    e.textContent = text;
    return e;
  };

  const build = () => {
    plot?.destroy();
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: css("--muted"), grid: { ...grid, show: false }, ticks: { ...grid, show: false }, font: `11px ${getComputedStyle(at).fontFamily}` };
    plot = new uPlot(
      {
        width: at.clientWidth,
        height: at.clientHeight,
        padding: [8, 16, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
        axes: [
          { ...axis, size: 24, space: 56, values: (_, ticks) => ticks.map(clock) },
          { ...axis, incrs: wholes, size: (_, labels) => Math.max(40, ...(labels ?? []).map((l) => l.length * 6.5 + 14)), space: 34, grid, values: (_, ticks) => ticks.map((v) => (props.format ?? compact)(v)) },
        ],
        series: [
          {},
          ...props.series.map(
            (s): uPlot.Series => ({
              label: s.name,
              stroke: css(s.color),
              width: s.dash ? 1 : 1.75,
              points: { show: true, size: 5, filter: (u, i) => alone(u.data[i] ?? []) },
              spanGaps: false,
              ...(s.dash ? { dash: [4, 3] } : {}),
              ...(s.fill ? { fill: css(`${s.color}-fill`) } : {}),
            }),
          ),
        ],
        hooks: { setCursor: [hover] },
      },
      data(),
      at,
    );
    plot.root.append(tip);
  };
  build();
  const size = new ResizeObserver(() => plot && plot.width !== at.clientWidth && plot.setSize({ width: at.clientWidth, height: at.clientHeight }));
  size.observe(at);
  // Colours are drawn, not styled: with another theme it is drawn anew.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", build);
  const themed = new MutationObserver(build);
  themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return {
    update(next: ChartProps) {
      const same = next.times === props.times && next.series.length === props.series.length && next.series.every((s, i) => s.values === props.series[i]?.values);
      const anew = next.series.length !== props.series.length || next.series.some((s, i) => s.color !== props.series[i]?.color);
      props = next;
      if (anew) build();
      else if (!same) plot?.setData(data()); // pages are drawn oftener than counts come
    },
    destroy() {
      size.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", build);
      plot?.destroy();
      probe.remove();
    },
  };
}
