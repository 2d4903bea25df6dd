// Why a message has its status, and when it may go, in sentences. Pure: the
// same event and time make the same words. It knows only what the API says.

import type { Schemas } from "../api/client.ts";
import { duration, local, millis, words } from "../ui/format.ts";
import { parseWindow, windowWords } from "./window.ts";

export type Event = Schemas["Event"];
export type Message = Schemas["Message"];
export type Evidence = Schemas["Evidence"];
export type LimitState = Schemas["LimitState"];
export type Suppression = Schemas["Suppression"];

/** channels are all that there are. */
export const channels = ["sms", "voice", "email", "push", "webhook"] as const;
export type Channel = (typeof channels)[number];

/** scopeWords writes whose places are counted together: "recipient=+86…,class=verify" is "this recipient and class verify". */
export function scopeWords(scope: string): string {
  if (!scope) return "everybody";
  const parts = scope.split(/,(?=[a-z.]+(?::\d+)?=)/).map((p) => {
    const at = p.indexOf("=");
    const name = p.slice(0, at);
    const value = p.slice(at + 1);
    if (name === "recipient") return "this recipient";
    if (name === "mailbox") return "this mailbox";
    if (name === "content") return "this content";
    return `${name.replace(/^metadata\./, "").replace(/:.*/, "")} ${value}`;
  });
  return parts.length === 1 ? (parts[0] as string) : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
}

/** evidenceWords says why one window was full: what it allows, what stood in it, and until when. */
export function evidenceWords(e: Evidence, now: number): string {
  const limit = `limit ${e.limit} allows ${windowWords(e.window)} for ${scopeWords(e.scope)}`;
  const w = parseWindow(e.window);
  if (e.cost > e.n) return `${limit}; this message alone takes ${e.cost}, so it can never pass`;
  const took = e.cost > 1 ? `, and this one takes ${e.cost}` : "";
  if (w?.kind === "calendar") {
    const start = millis(e.start);
    const since = Number.isFinite(start) ? ` since ${local(start, now)}` : "";
    return `${limit}; ${e.count} ${e.count === 1 ? "was" : "were"} taken${since}${took}`;
  }
  if (w?.kind === "bucket") return `${limit}; the bucket had ${Math.max(0, e.n - e.count)} left${took}`;
  const oldest = millis(e.oldest);
  if (w?.kind === "rolling" && Number.isFinite(oldest)) {
    const until = `${local(oldest, now)} stands until ${local(oldest + w.ms, now)}`;
    return e.n === 1 && e.count === 1 ? `${limit}; the place of ${until}${took}` : `${limit}; ${e.count} stood in it, and the oldest, of ${until}${took}`;
  }
  return `${limit}; ${e.count} stood in it${took}`;
}

/** countdown writes what is left of a wait in whole seconds: at its end the time has come. */
export const countdown = (ms: number): string => duration(Math.ceil(ms / 1000) * 1000);

/** again says when it may go. */
export function again(at: string | null | undefined, now: number): string {
  const t = millis(at);
  if (!Number.isFinite(t)) return "";
  return t <= now ? `One may go since ${local(t, now)}.` : `The next may go at ${local(t, now)}, in ${countdown(t - now)}.`;
}

/** decided is the event that gave a message its status, or the last one. */
export function decided(m: Message): Event | undefined {
  return m.timeline.findLast((e) => e.kind === "status" && e.status === m.status) ?? m.timeline.at(-1);
}

const reasons: Record<string, string> = {
  send_at: "It was asked for at a later time",
  transient: "The provider failed for now",
  throttled: "The provider was asked too fast",
  unknown: "Nobody knows whether the provider took it",
  receipt: "The provider's receipt said so",
  released: "The caller gave it back",
  stale: "Its decision was too old at its turn, and is taken anew",
  limited: "A limit was full",
  no_usable_provider: "No provider is usable now",
  key_reused: "Its idempotency key names another message",
  missing_variable: "A variable of its template is missing",
  unknown_template: "The policy has no such template",
  bad_recipient_phone: "Its recipient is no phone number",
  bad_recipient_email: "Its recipient is no e-mail address",
  permanent: "The provider refused it for good",
  attempts_exhausted: "All attempts were used up",
  no_route: "No route leads to a provider for it",
  quiet_hours: "Its class is quiet at this hour",
  cancelled: "It was cancelled",
  suppressed: "The recipient opted out",
  expired: "Its time ran out",
  scheduled: "It was asked for at a later time",
};

/** reasonWords writes a reason of the API, which is stable and for programs, for people. */
export const reasonWords = (reason: string): string => reasons[reason] ?? words(reason).replace(/^./, (c) => c.toUpperCase());

/** answer is the provider's: code and text, as it gave them. Where it is written from right to left it stands by itself (Unicode's isolates), and turns no sentence around. */
export function answer(e: { error_code?: string; error?: string }): string {
  const text = [e.error_code, e.error].filter(Boolean).join(": ");
  return /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text;
}

/** why says in sentences why a message stands where it does. */
export function why(m: Message, now: number): string {
  const e = decided(m);
  const evidence = e?.decision?.evidence ?? [];
  const said = answer(m);
  switch (m.status) {
    case "limited":
    case "deferred": {
      const verb = m.status === "limited" ? "Refused" : "Waiting";
      if (evidence.length > 0) return `${verb}: ${evidence.map((v) => evidenceWords(v, now)).join("; and ")}. ${m.status === "limited" ? again(m.retry_at, now) : asked(m.retry_at, now)}`.trim();
      if (m.limit) return `${verb}: limit ${m.limit} allows ${windowWords(m.window ?? "")}. ${m.status === "limited" ? again(m.retry_at, now) : asked(m.retry_at, now)}`.trim();
      return `${verb}: ${reasonWords(m.reason ?? m.status).replace(/^./, (c) => c.toLowerCase())}. ${asked(m.retry_at, now)}`.trim();
    }
    case "failed":
      return `${reasonWords(m.reason ?? "failed")}${said ? `: ${m.provider ?? "the provider"} said ${said}` : ""}. It was tried ${times(m.attempt ?? 0)}.`;
    case "retrying":
      return `An attempt failed${said ? `: ${m.provider ?? "the provider"} said ${said}` : ""}. ${Number.isFinite(millis(m.retry_at)) ? `The next attempt is at ${local(millis(m.retry_at), now)}.` : ""}`.trim();
    case "unknown":
      return `Nobody knows whether ${m.provider ?? "the provider"} took it${said ? ` (${said})` : ""}, and its class says not to send twice.`;
    case "rejected":
      return `The request cannot be carried out: ${m.error || words(m.reason ?? "rejected")}.`;
    case "duplicate":
      return "It repeats an earlier message with the same idempotency key, and was not sent again.";
    case "scheduled":
      return `It was asked for at a later time. ${asked(m.retry_at, now)}`.trim();
    case "sent":
    case "delivered":
      return `${m.provider ?? "The provider"} took it${(m.attempt ?? 1) > 1 ? ` at attempt ${m.attempt}` : ""}${m.status === "delivered" ? " and says that it arrived" : ""}.${m.observed ? ` Limit ${m.limit} only observes; enforced, it would have refused it.` : ""}`;
    case "undelivered":
      return `${m.provider ?? "The provider"} took it, and says that it did not arrive${said ? `: ${said}` : ""}.`;
    case "expired":
      return "Its time ran out before it could be sent.";
    case "suppressed":
      return "The recipient opted out: nothing of this kind is sent to it.";
    case "cancelled":
      return "It was taken back before it was sent.";
    case "accepted":
      return "Weir holds it; nothing is decided yet.";
    case "queued":
      return `It was admitted and waits for ${m.provider ?? "its provider"}.`;
    case "sending":
      return `A call to ${m.provider ?? "the provider"} is under way.`;
    default:
      return words(m.reason ?? "");
  }
}

function asked(at: string | null | undefined, now: number): string {
  const t = millis(at);
  return Number.isFinite(t) ? `It is asked for again at ${local(t, now)}${t > now ? `, in ${countdown(t - now)}` : ""}.` : "";
}

const times = (n: number) => (n === 0 ? "not once" : n === 1 ? "once" : n === 2 ? "twice" : `${n} times`);

/** leftWords says what a window leaves: "3 of 5 left, one more at 14:03:10". */
export function leftWords(l: LimitState, now: number): string {
  const left = `${l.remaining.toLocaleString("en")} of ${l.n.toLocaleString("en")} left`;
  const reset = millis(l.reset);
  if (l.remaining >= l.n || !Number.isFinite(reset)) return left;
  return parseWindow(l.window)?.kind === "calendar" ? `${left}, all again at ${local(reset, now, false)}` : `${left}, one more at ${local(reset, now)}`;
}

/** next is when all windows have room: undefined is now. */
export function next(limits: readonly LimitState[], now: number): { at: number; limit: LimitState } | undefined {
  let last: { at: number; limit: LimitState } | undefined;
  for (const limit of limits) {
    const at = millis(limit.reset);
    if (limit.remaining > 0 || !Number.isFinite(at) || at <= now) continue;
    if (!last || at > last.at) last = { at, limit };
  }
  return last;
}

/** ended: a message with this status has come to something. Receipts may still amend it. */
export const ended = (status: string): boolean => !["accepted", "scheduled", "deferred", "queued", "sending", "retrying"].includes(status);
export const canCancel = (status: string): boolean => !ended(status) && status !== "sending";
/** canTell: its callbacks can be asked for again. */
export const canTell = (m: Message): boolean => m.timeline.length > 0 && ended(m.status);
export const canRetry = (status: string): boolean => ["limited", "failed", "expired"].includes(status);

/** short is the why of a message in a few words, for a row of a list. */
export function short(m: Message): string {
  if (m.limit) return `${m.observed ? "observed by " : ""}limit ${m.limit}, ${windowWords(m.window ?? "")}`;
  return answer(m) || (m.reason ? reasonWords(m.reason) : "");
}

const verdicts: Record<string, string> = { admit: "admitted", refuse: "refused", defer: "deferred", reject: "rejected", expire: "expired", suppress: "suppressed", cancel: "cancelled", give_back: "place given back", move: "place moved", duplicate: "duplicate", forward: "passed on to its owner" };

export const verdictWords = (verdict: string): string => verdicts[verdict] ?? words(verdict);

/** covers says whether an opt-out is of messages with this channel and class. Those of other tenants are not told. */
export const covers = (s: Suppression, channel: string, cls: string): boolean => (!s.channel || s.channel === channel) && (!s.class || s.class === cls);

/** suppressionWords says what a recipient has opted out of. */
export function suppressionWords(s: Suppression, now: number): string {
  const what = [s.class && `class ${s.class}`, s.channel && `${s.channel} messages`].filter(Boolean).join(", ") || "everything";
  const at = millis(s.at);
  return `opted out of ${what}${s.tenant ? "" : ", of every tenant"}${Number.isFinite(at) ? ` at ${local(at, now)}` : ""}${s.expires_at ? `, until ${local(millis(s.expires_at), now)}` : ""}${s.reason ? ` (${words(s.reason)})` : ""}`;
}
