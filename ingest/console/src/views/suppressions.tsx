// What a recipient is suppressed for: until when, why and by whom; and the buttons
// that lift one and make one. It is asked of whoever decides, so it is as of now.

import { useEffect, useState } from "preact/hooks";
import { call, get, type Schemas } from "../api/client.ts";
import { useQuery } from "../api/query.ts";
import { useWho } from "../session.tsx";
import { type Channel, channels } from "../say/why.ts";
import { announce } from "../ui/announce.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Input, Select } from "../ui/field.tsx";
import { words, zone } from "../ui/format.ts";
import { Panel } from "../ui/page.tsx";
import { Answer, Empty } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { Time } from "../ui/time.tsx";

type Listed = Schemas["ListedSuppression"];

const named = (channel: string | undefined): { channel?: Channel } => (channel ? { channel: channel as Channel } : {});

/** scopeOf says what one covers. */
const scopeOf = (s: Listed): string => [s.channel ?? "any channel", s.class ? `class ${s.class}` : "any class"].join(", ");

export function Suppressions({ to, changed, onChange }: { to: string; changed: number; onChange: () => void }) {
  const { can } = useWho();
  const asked = useQuery((signal) => get("/v1/suppressions", { query: { to }, signal }), [to], { every: 15_000 });
  useEffect(() => {
    if (changed > 0) asked.reload(); // what is shown stays until the answer
  }, [changed]);
  const [lifting, lift] = useState<Listed>();
  const [adding, add] = useState(false);
  const done = (outcome: string | undefined, what: string) => {
    announce(outcome ? what : "Asked for, and not decided yet");
    asked.reload();
    onChange();
  };
  const columns: readonly Column<Listed>[] = [
    { key: "scope", title: "Covers", cell: (s) => scopeOf(s), width: "13rem" },
    { key: "until", title: "Until", cell: (s) => (s.expires_at ? <Time at={s.expires_at} /> : "it is lifted"), width: "9rem" },
    { key: "reason", title: "Reason", cell: (s) => words(s.reason ?? ""), width: "10rem", wideOnly: true },
    { key: "by", title: "By", cell: (s) => <span class="muted">{s.tenant ? (s.provider ?? "") : "an operator, for every tenant"}</span>, wideOnly: true },
    { key: "at", title: "Since", cell: (s) => (s.at ? <Time at={s.at} /> : ""), width: "8.5rem", wideOnly: true },
    {
      key: "lift",
      title: "Lift",
      cell: (s) =>
        can("send") && s.tenant ? (
          <button type="button" class="button small" onClick={() => lift(s)} aria-label={`Lift the suppression of ${scopeOf(s)}`}>
            Lift
          </button>
        ) : (
          ""
        ),
      width: "5rem",
    },
  ];
  return (
    <Panel
      title="Suppressions"
      note={
        can("send") && (
          <button type="button" class="button small" onClick={() => add(true)}>
            Suppress
          </button>
        )
      }
      wide
      flush
    >
      <Answer of={asked} lines={2}>
        {(page) => (
          <Table caption={`Suppressions of ${to}`} columns={columns} rows={page.suppressions} rowKey={(s) => `${s.tenant ?? ""} ${s.channel ?? ""} ${s.class ?? ""}`} empty={<Empty title="Not suppressed">Nothing keeps messages from this recipient but limits.</Empty>} />
        )}
      </Answer>
      <Confirm
        open={lifting !== undefined}
        title="Lift this suppression?"
        action="Lift it"
        danger
        onClose={() => lift(undefined)}
        onConfirm={async () => {
          const { data } = await call("delete", "/v1/suppressions", { query: { to: lifting?.to ?? to, ...named(lifting?.channel), ...(lifting?.class ? { class: lifting.class } : {}) } });
          done(data?.outcome, data?.outcome === "unsuppress" ? "Lifted" : "It was lifted already");
        }}
      >
        <p>
          Messages to {lifting?.to} ({lifting && scopeOf(lifting)}) go out again. {lifting?.reason ? `It was suppressed for: ${words(lifting.reason)}. ` : ""}Whoever opted out must have opted in.
        </p>
      </Confirm>
      {adding && <Add to={to} onClose={() => add(false)} onDone={done} />}
    </Panel>
  );
}

function Add({ to, onClose, onDone }: { to: string; onClose: () => void; onDone: (outcome: string | undefined, what: string) => void }) {
  const [channel, setChannel] = useState("");
  const [cls, setClass] = useState("");
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  return (
    <Confirm
      open
      title="Suppress this recipient?"
      action="Suppress"
      danger
      onClose={onClose}
      onConfirm={async () => {
        const body = { to, ...named(channel), ...(cls.trim() ? { class: cls.trim() } : {}), ...(until ? { expires_at: new Date(until).toISOString() } : {}), ...(reason.trim() ? { reason: reason.trim() } : {}) };
        const { data } = await call("put", "/v1/suppressions", { body });
        onDone(data?.outcome, data?.outcome === "repeated" ? "It was suppressed so already" : "Suppressed");
      }}
    >
      <p>Your messages to {to} end as suppressed until the time below, or until somebody lifts it.</p>
      <Select label="Channel" value={channel} onValue={setChannel} options={[["", "any"], ...channels]} />
      <Input label="Class" hint="Empty is any." value={cls} onValue={setClass} maxLength={64} autocomplete="off" />
      <Input label="Until" hint={`In your zone, ${zone(Date.now())}. Empty is until it is lifted.`} type="datetime-local" value={until} onValue={setUntil} />
      <Input label="Reason" value={reason} onValue={setReason} maxLength={64} placeholder="asked by phone" autocomplete="off" />
    </Confirm>
  );
}
