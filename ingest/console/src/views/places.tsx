/**
 * Places draws a window: each place that is taken and each that is free, or a
 * bar where there are too many to see. The words beside it say the same.
 */
export function Places({ n, left }: { n: number; left: number }) {
  const taken = Math.max(0, Math.min(n, n - left));
  const state = left <= 0 ? "full" : left <= n / 4 ? "low" : "";
  if (n > 20)
    return (
      <div class={`places bar ${state}`} aria-hidden="true">
        <span class="taken" style={{ width: `${(taken / n) * 100}%` }} />
      </div>
    );
  return (
    <div class={`places ${state}`} aria-hidden="true">
      {Array.from({ length: n }, (_, i) => (
        <span key={i} class={i < taken ? "taken" : ""} />
      ))}
    </div>
  );
}
