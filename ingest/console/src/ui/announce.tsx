// What a person who does not see the screen should hear: results of what he did.

import { useEffect, useState } from "preact/hooks";

let say: (text: string) => void = () => {};

/** announce shows a short text for some seconds, and has it read out. */
export function announce(text: string): void {
  say(text);
}

/** Announcer is the live region. There is one, in the shell, from the start. */
export function Announcer() {
  const [text, set] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    say = (t) => {
      clearTimeout(timer);
      set("");
      requestAnimationFrame(() => set(t)); // the same text twice is read twice
      timer = setTimeout(() => set(""), 6000);
    };
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="toast" role="status" aria-live="polite">
      {text}
    </div>
  );
}
