// A real Weir for the tests: weir dev on free ports in a directory of its own,
// and a second process of it that asks for keys, as weir run does. Traffic is
// real, over HTTP.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHTTP } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const bin = resolve(import.meta.dirname, "../../../bin/weir");

/** What providers show with their receipts, and what signs callbacks. */
const secret = "console-tests-own-receipts";

/** policyFor has a limit for each test that needs one, so that they do not get into each other's way, with windows that stay full for as long as a slow machine takes. stub is the url of a provider that does as a test says; secrets stand in files of dir. A lane commits a transaction for as many calls as run at once: with 64 of them 10,000 messages took 12 to 27 s beside other work, with 1,000 less than 8. */
const policyFor = (stub: string, dir: string) => `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/20m, 5/1h, 10/calendar-day], timezone: Asia/Shanghai}
  - {name: promo, match: {class: promo}, per: [recipient, class], allow: [2/1h]}
  - {name: watched, match: {class: watched}, per: [recipient, class], allow: [1/1h], mode: observe}
  - {name: waits, match: {class: waits}, per: [recipient, class], allow: [1/1h], on_refusal: defer}
  - {name: shared, match: {class: shared}, per: [recipient, class], allow: [5/1h]}
classes:
  - {name: verify, priority: urgent, expires_after: 5m, stale_after: 2m, retries: [5s, 30s]}
  - {name: promo, priority: bulk}
  - {name: watched}
  - {name: waits}
  - {name: once, retries: []}
providers:
  - {name: simulated, type: simulated, channels: [sms, voice, email, webhook], concurrency: 1000, settings: {latency: 1ms}}
  - {name: stub, type: http, channels: [push], settings: {url: "${stub}/push"}}
  - {name: calls, type: http, channels: [voice], settings: {url: "${stub}/voice", receipt_secret: "file:${dir}/receipts"}}
routes:
  - {name: calls, match: {channel: voice}, to: [{provider: calls, weight: 70}, {provider: simulated, weight: 30}]}
  - {name: push, match: {channel: push}, to: [{provider: stub}]}
  - {name: others, to: [{provider: simulated}]}
templates:
  - {name: login-code, channel: sms, body: "Your code is {{code}}"}
tenants:
  - {name: default, default_region: CN, callback: {url: "${stub}/hook", secret: "file:${dir}/callbacks", events: [delivered, undelivered]}}
  - {name: acme, default_region: SG}
alerts:
  - {name: oncall, to: {type: webhook, url: "${stub}/alert"}, when: [breaker.open, limit.refused], at_most: 1/1h}
`;

/** Told is a callback as it came. */
export interface Told {
  id: string;
  type: string;
  message: string;
}

/** Provider is a stub that takes what it is handed, or refuses it as a test says. It takes callbacks and alerts too. */
export class Provider {
  url = "";
  /** The callbacks that came, in their order. */
  readonly told: Told[] = [];
  /** What it answers to a push to this recipient; 200 where there is nothing. */
  readonly answers = new Map<string, { status: number; body: unknown }>();
  private readonly server = createHTTP((req, res) => {
    let body = "";
    req.on("data", (b: Buffer) => (body += b.toString()));
    req.on("end", () => {
      const { to = "", id, type, data } = JSON.parse(body) as { to?: string; id: string; type?: string; data?: { message_id: string } };
      if (req.url === "/hook") this.told.push({ id: String(req.headers["webhook-id"]), type: type ?? "", message: data?.message_id ?? "" });
      const a = this.answers.get(to) ?? { status: 200, body: { id: `stub-${id}` } };
      res.writeHead(a.status, { "Content-Type": "application/json" }).end(JSON.stringify(a.body));
    });
  });

  static start(): Promise<Provider> {
    const p = new Provider();
    return new Promise((done, fail) => {
      p.server.once("error", fail);
      p.server.listen(0, "127.0.0.1", () => {
        p.url = `http://127.0.0.1:${(p.server.address() as AddressInfo).port}`;
        done(p);
      });
    });
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** Sent is what a message came to; code is of the problem, where it was refused. */
export interface Sent {
  id: string;
  status: string;
  code?: string;
}

export class Weir {
  readonly dir = mkdtempSync(join(tmpdir(), "weir-console-"));
  url = "";
  /** The process of weir dev. */
  pid = 0;
  private kafka = "";
  private clickhouse = "";
  private readonly children: ChildProcess[] = [];

  provider!: Provider;

  static async start(): Promise<Weir> {
    const w = new Weir();
    w.provider = await Provider.start();
    const file = join(w.dir, "policy.yaml");
    writeFileSync(file, policyFor(w.provider.url, w.dir));
    writeFileSync(join(w.dir, "receipts"), secret);
    writeFileSync(join(w.dir, "callbacks"), Buffer.from("the callbacks of console tests...").toString("base64"));
    const child = w.spawn("dev", "--dir", w.dir, "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--clickhouse", "127.0.0.1:0", "--policy", file);
    w.pid = child.pid ?? 0;
    await w.until("weir dev is ready", child, () => {
      const e = JSON.parse(readFileSync(join(w.dir, "endpoints"), "utf8")) as { http: string; kafka: string; clickhouse: string };
      [w.url, w.kafka, w.clickhouse] = [`http://${e.http}`, e.kafka, e.clickhouse];
      return true;
    });
    if (!w.clickhouse) throw new Error("weir dev runs without a ClickHouse engine: the console's figures come from it");
    return w;
  }

  /** key makes an API key and returns its secret. */
  key(name: string, tenant: string, scopes: string): string {
    return execFileSync(bin, ["keys", "create", name, "--dir", this.dir, "--tenant", tenant, "--scopes", scopes, "--quiet"], { encoding: "utf8" }).trim();
  }

  /** revoke takes a key away. */
  revoke(name: string): void {
    execFileSync(bin, ["keys", "revoke", name, "--dir", this.dir]);
  }

  /** receipt is what the provider calls says later of a message that it took. */
  async receipt(of: Record<string, unknown>): Promise<void> {
    await this.call("POST", `/v1/receipts/calls?token=${secret}`, of);
  }

  private beside: Promise<string> | undefined;

  /** keyed is the address of a process beside weir dev that serves the same HTTP API to those with a key; all tests share it. */
  keyed(): Promise<string> {
    return (this.beside ??= this.startKeyed());
  }

  private async startKeyed(): Promise<string> {
    for (let tries = 3; ; tries--) {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      const child = this.spawn("run", "--roles", "ingest,console", "--kafka-brokers", this.kafka, "--kafka-partitions", "8", "--kafka-replication", "1", "--clickhouse-url", this.clickhouse, "--http-listen", `127.0.0.1:${port}`, "--slot", "7", "--log-level", "warn");
      try {
        await this.until("weir run is ready", child, async () => (await fetch(`${url}/readyz`)).ok);
        return url;
      } catch (err) {
        // Somebody else has taken the port that was free.
        if (tries === 1 || !String(err).includes("address already in use")) throw err;
      }
    }
  }

  async call<T>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const answer = await fetch(this.url + path, { method, headers: { "Content-Type": "application/json", ...headers }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await answer.text();
    if (answer.status >= 400 && answer.status !== 429 && answer.status !== 422) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }

  /** send sends a message and waits for its decision. */
  send(message: Record<string, unknown>): Promise<Sent> {
    return this.call<Sent>("POST", "/v1/messages", { channel: "sms", body: "hello", ...message }, { Prefer: "wait=60" });
  }

  /** batch sends many at once: all are taken in, and nobody waits for what becomes of them. */
  async batch(messages: Record<string, unknown>[]): Promise<void> {
    const lines = messages.map((m) => JSON.stringify({ channel: "sms", body: "hello", ...m })).join("\n");
    const answer = await fetch(`${this.url}/v1/messages/batch`, { method: "POST", headers: { "Content-Type": "application/x-ndjson" }, body: lines });
    if (answer.status !== 202) throw new Error(`batch: ${answer.status} ${await answer.text()}`);
    const refused = (await answer.text()).split("\n").filter((line) => line.includes('"error":'));
    if (refused.length > 0) throw new Error(`batch: ${refused.length} of ${messages.length} were refused, such as ${refused[0]}`);
  }

  /** known waits until whoever lists messages has this one: who waits is answered by the decision, a moment before it is in the tail that reads. */
  async known(id: string): Promise<void> {
    await poll("the message is listed", async () => (await this.call<{ timeline: unknown[] }>("GET", `/v1/messages/${id}`)).timeline.length > 0);
  }

  /** comesTo waits until a message has a status. */
  async comesTo(id: string, ...statuses: string[]): Promise<void> {
    let last = "";
    await poll(`message comes to ${statuses.join(" or ")}`, async () => {
      last = (await this.call<{ status: string }>("GET", `/v1/messages/${id}`)).status;
      return statuses.includes(last);
    }).catch((err: Error) => {
      throw new Error(`${err.message}; it is ${last}`);
    });
  }

  async stop(): Promise<void> {
    this.provider.stop();
    for (const child of this.children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = new Promise((r) => child.once("exit", r));
      child.kill("SIGTERM");
      const hard = setTimeout(() => child.kill("SIGKILL"), 20_000);
      await gone;
      clearTimeout(hard);
    }
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** What the processes wrote to stderr last. */
  said = "";

  private spawn(...args: string[]): ChildProcess {
    const child = spawn(bin, args, { stdio: ["ignore", "ignore", "pipe"] });
    child.stderr?.on("data", (b: Buffer) => (this.said = (this.said + b.toString()).slice(-4000)));
    this.children.push(child);
    return child;
  }

  private async until(what: string, child: ChildProcess, ready: () => boolean | Promise<boolean>): Promise<void> {
    await poll(what, async () => {
      if (child.exitCode !== null) throw new Gone(`${what}: the process ended with ${child.exitCode}: ${this.said}`);
      return ready();
    }).catch((err: Error) => {
      throw new Error(`${err.message}\n${this.said}`);
    });
  }
}

class Gone extends Error {}

/** poll asks every 30 ms for two minutes; what throws counts as not yet. */
export async function poll(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 120_000;
  for (let last: unknown; ; ) {
    try {
      if (await ask()) return;
    } catch (err) {
      if (err instanceof Gone) throw err;
      last = err;
    }
    if (Date.now() > end) throw new Error(`waited in vain: ${what}${last ? ` (${String(last)})` : ""}`);
    await new Promise((r) => setTimeout(r, 30));
  }
}

function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const s = createServer();
    s.once("error", fail);
    s.listen(0, "127.0.0.1", () => {
      const { port } = s.address() as { port: number };
      s.close(() => done(port));
    });
  });
}
