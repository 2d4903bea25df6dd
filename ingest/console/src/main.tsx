import { render } from "preact";
import { App } from "./app.tsx";
import { setTheme, theme } from "./theme.ts";

setTheme(theme());
render(<App />, document.getElementById("app")!);
