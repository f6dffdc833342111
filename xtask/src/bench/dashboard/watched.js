// Runs in the page before its own scripts: counts what arrives, and when frames are drawn.
{
  const bench = window.bench = {
    drawn: null,
    begin() {
      Object.assign(this, { bytes: {}, events: {}, spent: {}, gaps: [], last: null, since: performance.now() });
    },
    told() {
      const resources = performance.getEntriesByType("resource").filter((one) => !one.name.includes("/api/stream"));
      const [navigation] = performance.getEntriesByType("navigation");
      const sent = [navigation, ...resources].reduce((sum, one) => sum + one.transferSize, 0);
      return {
        firstPaint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
        drawn: this.drawn, assets: sent, bytes: this.bytes, events: this.events, spent: this.spent,
        frames: this.gaps.length, longest: Math.max(0, ...this.gaps),
        slow: this.gaps.filter((gap) => gap > 50).length, ms: performance.now() - this.since,
      };
    },
  };
  bench.begin();
  const listen = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (name, take) {
    return listen.call(this, name, (event) => {
      const start = performance.now();
      take(event);
      const add = (to, number) => { to[name] = (to[name] ?? 0) + number; };
      add(bench.bytes, event.data.length);
      add(bench.events, 1);
      add(bench.spent, performance.now() - start);
    });
  };
  const frame = (now) => {
    if (bench.last !== null) bench.gaps.push(now - bench.last);
    bench.last = now;
    const grid = window.carillon?.view?.grid;
    if (bench.drawn === null && grid && grid.nodes.length && grid.frames && !grid.asked) bench.drawn = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
