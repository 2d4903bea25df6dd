// The event stream format (WHATWG HTML, 9.2), a piece at a time.

export interface Message {
  event: string;
  data: string;
  id: string;
}

/** Parser holds what of a stream has come without its end. */
export class Parser {
  /** The last id that came: where to go on from. */
  lastId = "";
  private rest = "";
  private event = "";
  private data: string[] = [];
  private readonly emit: (m: Message) => void;

  constructor(emit: (m: Message) => void) {
    this.emit = emit;
  }

  push(piece: string): void {
    const text = this.rest + piece;
    let from = 0;
    for (;;) {
      const end = text.indexOf("\n", from);
      if (end < 0) break;
      this.line(text.charCodeAt(end - 1) === 13 && end > from ? text.slice(from, end - 1) : text.slice(from, end));
      from = end + 1;
    }
    this.rest = text.slice(from);
  }

  private line(line: string): void {
    if (line === "") {
      if (this.data.length > 0) this.emit({ event: this.event || "message", data: this.data.join("\n"), id: this.lastId });
      this.event = "";
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line.charCodeAt(colon + 1) === 32 ? colon + 2 : colon + 1);
    if (name === "data") this.data.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id" && !value.includes("\0")) this.lastId = value;
  }
}
