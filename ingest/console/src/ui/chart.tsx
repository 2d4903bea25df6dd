// Lines over time. The library comes with the first chart that is shown; its
// place is held until then. Whoever does not see it gets the summary.

import { useEffect, useRef, useState } from "preact/hooks";

export interface Series {
  name: string;
  /** A custom property of styles.css: --c1. */
  color: string;
  values: (number | null)[];
  /** Filled to the bottom. */
  fill?: boolean;
  dash?: boolean;
  format?: (v: number) => string;
}

export interface ChartProps {
  /** What it shows and says, for those who do not see it. */
  summary: string;
  /** Seconds since 1970, as uPlot has them. */
  times: number[];
  series: Series[];
  height?: number;
  format?: (v: number) => string;
}

export function Chart(props: ChartProps) {
  const at = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const [lost, lose] = useState(false);
  const plot = useRef<{ update: (p: ChartProps) => void; destroy: () => void } | undefined>(undefined);
  useEffect(() => {
    let gone = false;
    import("./plot.ts").then(
      ({ draw }) => {
        if (!gone && at.current) plot.current = draw(at.current, latest.current);
      },
      () => gone || lose(true),
    );
    return () => {
      gone = true;
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.update(props));
  return (
    <figure class="chart">
      <div ref={at} class="chart-at" style={{ height: `${props.height ?? 180}px` }} role="img" aria-label={props.summary}>
        {lost && `The chart could not be loaded. ${props.summary}`}
      </div>
      {props.series.length > 1 && (
        <figcaption class="legend" aria-hidden="true">
          {props.series.map((s) => (
            <span key={s.name}>
              <i class={`swatch ${s.color.slice(2)}`} />
              {s.name}
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}
