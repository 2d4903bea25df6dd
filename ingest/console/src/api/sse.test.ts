import { expect, test } from "vitest";
import { Parser, type Message } from "./sse.ts";

const stream = 'retry: 2000\n: here\nid: 0-1\n\nevent: status\nid: 0-2\ndata: {"a":1}\n\nevent: gap\r\nid: 0-3\r\ndata: {"reason":"forgotten"}\r\n\r\n: here\nid: 0-9\n\ndata: x\ndata: y\n\nevent: status\ndata: never ended';
const want: Message[] = [
  { event: "status", data: '{"a":1}', id: "0-2" },
  { event: "gap", data: '{"reason":"forgotten"}', id: "0-3" },
  { event: "message", data: "x\ny", id: "0-9" },
];

test("however the stream is cut into pieces, the same events come", () => {
  for (let size = 1; size <= stream.length; size++) {
    const got: Message[] = [];
    const p = new Parser((m) => got.push(m));
    for (let i = 0; i < stream.length; i += size) p.push(stream.slice(i, i + size));
    expect(got, `pieces of ${size}`).toEqual(want);
    expect(p.lastId).toBe("0-9");
  }
});
