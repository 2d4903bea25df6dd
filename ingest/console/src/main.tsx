import { render } from "preact";
import { App } from "./app.tsx";
import { followScroll } from "./scroll.ts";
import { setTheme, theme } from "./theme.ts";

setTheme(theme());
followScroll();
render(<App />, document.getElementById("app")!);
