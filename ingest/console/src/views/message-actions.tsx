// What can be done with a message now: cancel it, send it again, tell of it again.

import { useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { go, link } from "../router.ts";
import { type Message, canCancel, canRetry, canTell } from "../say/why.ts";
import { useWho } from "../session.tsx";
import { useAlive } from "../ui/alive.ts";
import { announce } from "../ui/announce.tsx";
import { Confirm } from "../ui/confirm.tsx";

export function Actions({ m, onDone }: { m: Message; onDone: () => void }) {
  const { can } = useWho();
  const [asking, ask] = useState<"cancel" | "retry" | "tell">();
  const alive = useAlive();
  if (!can("send")) return null;
  const path = { id: m.id };
  const query = { to: m.to }; // an id that a producer made may be of several recipients
  return (
    <>
      {canCancel(m.status) && (
        <button type="button" class="button" onClick={() => ask("cancel")}>
          Cancel it
        </button>
      )}
      {canRetry(m.status) && (
        <button type="button" class="button primary" onClick={() => ask("retry")}>
          Send again
        </button>
      )}
      {canTell(m) && (
        <button type="button" class="button" onClick={() => ask("tell")}>
          Repeat callbacks
        </button>
      )}
      <Confirm
        open={asking === "tell"}
        title="Repeat the callbacks of this message?"
        action="Repeat callbacks"
        onClose={() => ask(undefined)}
        onConfirm={async () => {
          await call("post", "/v1/messages/{id}/callbacks", { path, query });
          announce("Asked for: the callbacks come again");
        }}
      >
        <p>Your receiver is told each status once more, in order and under the same ids: what it has already it can tell by them.</p>
      </Confirm>
      <Confirm
        open={asking === "cancel"}
        title="Take this message back?"
        action="Cancel the message"
        dismiss="Leave it"
        danger
        onClose={() => ask(undefined)}
        onConfirm={async () => {
          const { data } = await call("post", "/v1/messages/{id}/cancel", { path, query, headers: { Prefer: "wait=5" } });
          announce(data?.status === "cancelled" ? "Cancelled" : "Asked for: its status tells whether it was in time");
          onDone();
        }}
      >
        <p>{m.status === "queued" || m.status === "retrying" ? "A lane holds it already: it ends when it next comes by, if it is in time." : "It ends at once and gives its place back."}</p>
      </Confirm>
      <Confirm
        open={asking === "retry"}
        title="Send this message again?"
        action="Send again"
        onClose={() => ask(undefined)}
        onConfirm={async () => {
          const { data } = await call("post", "/v1/messages/{id}/retry", { path, query });
          announce("Sent again as a new message");
          if (data && alive()) go(link("messages", data.id));
        }}
      >
        <p>It becomes a new message of the same content, which limits decide like any other. Asked for twice it is sent once.</p>
      </Confirm>
    </>
  );
}
