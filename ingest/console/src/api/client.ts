// Calls of the HTTP API with the types of schemas/openapi.yaml. It does not
// retry, cache, or show anything: query.ts and the views do.

import { duration } from "../ui/format.ts";
import { ofTenant } from "./tenant.ts";
import type { components, paths } from "./types.ts";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

/** ApiError is a call that was refused, or had no answer (status 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly problem: Partial<Problem>;
  /** Seconds after which to ask again, where the server says. */
  readonly retryAfter: number | undefined;

  constructor(status: number, problem: Partial<Problem>, retryAfter?: number) {
    super(problem.detail || problem.title || (status === 0 ? "Weir does not answer." : `Weir answered ${status}.`));
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code ?? (status === 0 ? "no_answer" : "");
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

type Method = "get" | "post" | "put" | "delete";
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, { responses: object }> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Json<R> = R extends { content: infer C } ? (C extends { "application/json": infer J } ? J : undefined) : undefined;
type Answer<O> = O extends { responses: infer R } ? Json<{ [S in keyof R]: S extends 200 | 201 | 202 | 204 ? R[S] : never }[keyof R & (200 | 201 | 202 | 204)]> : never;
type Query<O> = O extends { parameters: { query?: infer Q } } ? Q : never;
type Path<O> = O extends { parameters: { path: infer Q } } ? Q : never;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : O extends { requestBody: { content: { "application/json": infer B } } } ? B : never;

export interface Options<O> {
  query?: Query<O>;
  path?: Path<O>;
  body?: Body<O>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Answered is an answer with the headers that some callers need (ETag). */
export interface Answered<T> {
  data: T;
  headers: Headers;
}

export async function call<M extends Method, P extends PathsWith<M>>(method: M, path: P, options: Options<Operation<P, M>> = {}): Promise<Answered<Answer<Operation<P, M>>>> {
  const query = options.query as Record<string, unknown> | undefined;
  const answer = await request(method, address(path as string, options.path as Record<string, unknown>, method === "get" ? ofTenant(path as string, query) : query), options.body, options.headers, options.signal);
  return { data: answer.data as Answer<Operation<P, M>>, headers: answer.headers };
}

/** get is call for what is only read. */
export async function get<P extends PathsWith<"get">>(path: P, options: Options<Operation<P, "get">> = {}) {
  return (await call("get", path, options)).data;
}

/**
 * request is a call of any path, untyped. It throws ApiError, and the signal's
 * reason where it was aborted.
 */
export async function request(method: string, url: string, body?: unknown, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Answered<unknown>> {
  const init: RequestInit = { method: method.toUpperCase(), headers: { Accept: "application/json", ...headers }, credentials: "same-origin", signal: signal ?? null };
  if (body !== undefined) {
    init.headers = { ...init.headers, "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch {
    if (signal?.aborted) throw signal.reason;
    throw new ApiError(0, { detail: "Weir does not answer. It may be restarting, or the network is away." });
  }
  const text = await answer.text().catch(() => {
    if (signal?.aborted) throw signal.reason;
    throw new ApiError(0, { detail: "The answer broke off." });
  });
  const json = answer.headers.get("Content-Type")?.includes("json") ?? false;
  let data: unknown;
  try {
    data = json && text ? JSON.parse(text) : undefined;
  } catch {
    throw new ApiError(0, { detail: "The answer is no JSON. Something between here and Weir may have changed it." });
  }
  if (answer.status === 401 && !url.startsWith("/v1/session")) dispatchEvent(new Event(signedOut));
  if (!answer.ok) throw problemOf(answer, data);
  return { data, headers: answer.headers };
}

/** signedOut is the event that a session has ended: its key was revoked, or 12 hours are over. */
export const signedOut = "weir:signed-out";

export function problemOf(answer: Response, data: unknown): ApiError {
  const after = Number(answer.headers.get("Retry-After"));
  return new ApiError(answer.status, (data ?? {}) as Partial<Problem>, Number.isFinite(after) && after > 0 ? after : undefined);
}

/** address fills a path's parameters and writes the query; what is absent or empty is left out. */
export function address(path: string, values: Record<string, unknown> = {}, query: Record<string, unknown> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name] ?? "")));
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) {
    if (v === undefined || v === null || v === "") continue;
    q.set(k, Array.isArray(v) ? v.join(",") : String(v));
  }
  const text = q.toString();
  return text ? `${filled}?${text}` : filled;
}

/** errorAt is what the server says of a field of what was sent, by its JSON pointer, and of what is in it; "" is the whole. */
export function errorAt(err: unknown, pointer: string): string | undefined {
  if (!(err instanceof ApiError)) return undefined;
  const found = err.problem.errors?.filter((e) => e.pointer === pointer || (pointer !== "" && e.pointer.startsWith(`${pointer}/`)));
  return found && found.length > 0 ? found.map((e) => e.detail).join("; ") : undefined;
}

/** whyNot says what a refusal means for a person: which scope is missing, when to try again. */
export function whyNot(err: unknown): string {
  if (!(err instanceof ApiError)) return err instanceof Error ? err.message : String(err);
  const again = err.retryAfter ? ` Try again in ${duration(err.retryAfter * 1000)}.` : "";
  const fields = (err.problem.errors ?? []).map((e) => ` ${e.pointer.replace(/^\//, "") || "It"}: ${e.detail}.`).join("");
  return err.message + fields + again;
}
