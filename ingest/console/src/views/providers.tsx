import type { ViewProps } from "../app.tsx";
import { Page } from "../ui/page.tsx";
import { Empty } from "../ui/states.tsx";

export default function View(_: ViewProps) {
  return (
    <Page title="Providers">
      <Empty title="This view is not built yet." />
    </Page>
  );
}
