import type { ViewProps } from "../app.tsx";
import { Page } from "../ui/page.tsx";
import { Empty } from "../ui/states.tsx";

export default function View(_: ViewProps) {
  return (
    <Page title="Message">
      <Empty title="This view is not built yet." />
    </Page>
  );
}
