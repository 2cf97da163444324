"use strict";
// In a frame of the Airflow UI the page takes the theme chosen there; alone it keeps the system's.
try {
  const outer = window.parent.document.documentElement;
  if (window.parent !== window) {
    const follow = () => { document.documentElement.dataset.theme = outer.classList.contains("dark") ? "dark" : "light"; };
    new MutationObserver(follow).observe(outer, { attributeFilter: ["class"] });
    follow();
    // A sandboxed frame may not lead its parent elsewhere; a link of the parent's own may.
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[target=_top]");
      if (link) { event.preventDefault(); Object.assign(window.parent.document.createElement("a"), { href: link.href }).click(); }
    });
  }
} catch (error) {
  // another origin's frame: nothing to follow
}
