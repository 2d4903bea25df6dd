// Statuses in one place: their colour, their sign and their meaning. Colour never
// stands alone.

import type { Schemas } from "../api/client.ts";

export type Tone = "ok" | "bad" | "warn" | "info" | "mute";

const meaning: Record<Schemas["Message"]["status"], [Tone, string]> = {
  accepted: ["info", "Weir holds it; nothing is decided yet."],
  scheduled: ["info", "It waits for its time."],
  deferred: ["info", "It waits until a limit, quiet hours or its providers let it through."],
  queued: ["info", "It was admitted and waits for its provider's turn."],
  sending: ["info", "A call to the provider is under way."],
  retrying: ["warn", "A call failed; it is tried again."],
  sent: ["ok", "The provider took it."],
  delivered: ["ok", "The provider says that it arrived."],
  undelivered: ["bad", "The provider took it, and says that it did not arrive."],
  failed: ["bad", "The provider refused it, or all attempts were used up."],
  unknown: ["bad", "Nobody knows whether the provider took it, and its class says not to send twice."],
  limited: ["warn", "A limit refused it."],
  suppressed: ["mute", "The recipient is on a suppression list."],
  expired: ["warn", "Its time ran out before it could be sent."],
  cancelled: ["mute", "It was taken back."],
  rejected: ["bad", "The request cannot be carried out as it is."],
  duplicate: ["mute", "It repeats an earlier message and was not sent again."],
};

const sign: Record<Tone, string> = { ok: "✓", bad: "✕", warn: "!", info: "•", mute: "–" };

const meant = (status: string): [Tone, string] => (meaning as Record<string, [Tone, string]>)[status] ?? ["mute", ""];

/** statuses are all that there are, in the order of a message's life. */
export const statuses: readonly string[] = Object.keys(meaning);

export const toneOf = (status: string): Tone => meant(status)[0];

/** Status is a message's status as a badge. */
export function Status({ status }: { status: string }) {
  const [tone, text] = meant(status);
  return <Badge tone={tone} text={status} title={text} />;
}

/** Badge is a word with a tone: a sign and a colour, and the word. */
export function Badge({ tone, text, title }: { tone: Tone; text: string; title?: string }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      <span class="badge-sign" aria-hidden="true">
        {sign[tone]}
      </span>
      {text}
    </span>
  );
}
