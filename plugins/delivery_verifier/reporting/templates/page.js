"use strict";
(function () {
  const root = document.documentElement;
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : media.matches);

  function paint() {
    const ink = dark() ? "#b6c0cb" : "#505a66";
    const line = dark() ? "#333c47" : "#e2e6eb";
    for (const doc of (window.Bokeh ? window.Bokeh.documents : [])) {
      for (const model of doc.all_models) {
        if (model.type.endsWith("Axis")) {
          model.setv({ axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: ink,
            major_tick_line_color: ink, minor_tick_line_color: null });
        } else if (model.type === "Grid") {
          model.setv({ grid_line_color: line });
        } else if (model.type === "Text") {
          model.setv({ text_color: { value: ink } });
        }
      }
    }
    button.textContent = dark() ? "Light" : "Dark";
  }

  const button = document.getElementById("theme");
  const wanted = location.hash.slice(1);
  if (wanted === "dark" || wanted === "light") root.dataset.theme = wanted;
  button.hidden = false;
  button.addEventListener("click", function () {
    root.dataset.theme = dark() ? "light" : "dark";
    paint();
  });
  media.addEventListener("change", paint);
  paint();

  // A line of a command breaks between its words, never inside an option.
  for (const code of document.querySelectorAll("code, pre")) {
    if (!code.textContent.startsWith("kdv ")) continue;
    const words = code.textContent.split(" ").map(function (word) {
      const span = document.createElement("span");
      span.className = "word";
      span.textContent = word;
      return [span, " "];
    });
    code.replaceChildren(...words.flat().slice(0, -1));
  }

  // A link into a folded part unfolds it.
  function reveal() {
    const target = document.querySelector(":target");
    if (!target) return;
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    target.scrollIntoView();
    if (target.tabIndex === -1) target.focus({ preventScroll: true });
  }
  window.addEventListener("hashchange", reveal);
  reveal();

  // What is folded on a screen must not be missing on paper.
  let opened = [];
  window.addEventListener("beforeprint", function () {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", function () {
    for (const one of opened) one.open = false;
  });

  const data = document.getElementById("plot-data");
  if (!data) return;
  for (const [target, item] of Object.entries(JSON.parse(data.textContent))) {
    const failed = function (error) {
      document.getElementById(target).textContent =
        "The plot could not be drawn (" + error + "); what it shows stands below in words.";
    };
    try {
      window.Bokeh.embed.embed_item(item, target).then(paint, failed);
    } catch (error) {
      failed(error);
    }
  }
})();
