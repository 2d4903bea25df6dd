// What happens, while it happens: how much, and the latest of it.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Event, type LiveState, useLive } from "../api/live.ts";
import { Seconds, isFailure, isResult, latest } from "../overview.ts";
import { link } from "../router.ts";
import { compact, words } from "../ui/format.ts";
import { Empty } from "../ui/states.tsx";
import { Status } from "../ui/status.tsx";
import { Table } from "../ui/table.tsx";
import { Time } from "../ui/time.tsx";

export type Show = "all" | "failures";

/** How many are shown. */
const seen = 7;

/** useHappening follows all statuses. However many come, it draws once a second; what is held stands still, and the rate goes on. */
export function useHappening(only: Show) {
  const counted = useRef(new Seconds(60));
  const recent = useRef({ all: [] as Event[], failures: [] as Event[] });
  const [events, show] = useState<Event[]>([]);
  const [rate, setRate] = useState(0);
  const [held, hold] = useState(false);
  const state = useLive({
    onEvents: (events) => {
      counted.current.add(events.length, Date.now());
      const r = recent.current;
      recent.current = { all: latest(r.all, events, isResult, seen), failures: latest(r.failures, events, isFailure, seen) };
    },
  });
  useEffect(() => {
    const look = () => {
      if (document.hidden) return;
      setRate(counted.current.rate(5, Date.now()));
      if (!held) show(recent.current[only]);
    };
    look();
    const timer = setInterval(look, 1000);
    return () => clearInterval(timer);
  }, [only, held]);
  return { state, rate, events, held, hold };
}

export function LiveMark({ state, rate }: { state: LiveState; rate: number }) {
  const text: Record<LiveState, string> = { connecting: "connecting", live: "live", waiting: "not live, trying again", resting: "resting", refused: "not live, refused" };
  return (
    <p class={`live ${state === "live" ? "on" : state === "connecting" ? "" : "off"}`}>
      <span role="status">{text[state]}</span>
      {state === "live" && <span class="num">{rate < 10 ? Math.round(rate * 10) / 10 : compact(Math.round(rate))} events/s</span>}
    </p>
  );
}

/** Happening is the list. It is held while a mouse points at it, since nobody hits a row that moves, or the focus is in it. A finger points at nothing for long. */
export function Happening({ events, only, hold }: { events: Event[]; only: Show; hold: (on: boolean) => void }) {
  return (
    <div class="happening" onPointerEnter={(e) => e.pointerType === "mouse" && hold(true)} onPointerLeave={() => hold(false)} onFocusIn={() => hold(true)} onFocusOut={() => hold(false)}>
      <Table
        caption={only === "all" ? "The latest messages that came to an end" : "The latest messages that failed"}
        fixed
        rows={events}
        rowKey={(_, i) => String(i)} // rows stay, and what they show changes: nothing moves
        columns={[
          { key: "at", title: "When", cell: (e) => <Time at={e.at} />, width: "5.6rem", narrow: "4.9rem" },
          { key: "status", title: "Status", cell: (e) => <Status status={e.status ?? ""} />, width: "7.4rem", narrow: "6.6rem" },
          { key: "to", title: "Recipient", cell: (e) => <a href={link("messages", e.message_id ?? "")}>{e.to || "unreadable"}</a> },
          { key: "why", title: "By", wideOnly: true, cell: (e) => <span title={why(e)}>{why(e)}</span>, width: "30%" },
        ]}
        empty={<Empty title="Nothing since this page was opened.">{only === "all" ? "Messages show here when they end." : "Messages that fail, expire, are rejected or do not arrive show here at once."}</Empty>}
      />
    </div>
  );
}

const why = (e: Event) => (e.limit ? `${e.limit} ${e.window ?? ""}` : e.error) || [e.provider, e.error_code].filter(Boolean).join(" ") || words(e.reason ?? "");
