// The search's index, a megabyte, is loaded when a reader begins to search, and not with each page.
(() => {
  const { open, send } = XMLHttpRequest.prototype;
  const ofSearch = "[data-md-component=search], [data-md-toggle=search], [for=__search]";
  const late = new WeakSet();
  XMLHttpRequest.prototype.open = function (method, url, ...others) {
    if (String(url).endsWith("/search/search_index.json") && !new URLSearchParams(location.search).has("q")) late.add(this);
    return open.call(this, method, url, ...others);
  };
  XMLHttpRequest.prototype.send = function (...body) {
    if (!late.delete(this)) return send.apply(this, body);
    const started = new AbortController();
    for (const kind of ["focusin", "change", "pointerdown"])
      document.addEventListener(
        kind,
        (event) => {
          if (!event.target.closest?.(ofSearch)) return;
          started.abort();
          send.apply(this, body);
        },
        { signal: started.signal },
      );
  };
})();
