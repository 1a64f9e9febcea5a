"use strict";
{
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    button.querySelector("span").textContent = next;
  });
  const options = {
    actions: false,
    defaultStyle: false,
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };
  // A chart takes the width of its place, which one in a folded section does not have yet.
  const draw = (figure) => {
    const data = figure.querySelector("script.spec");
    const drawn = vegaEmbed(figure.querySelector(".chart"), JSON.parse(data.textContent), options);
    // A legend whose columns depend on the width has its height only at the second layout.
    const layOutAgain = (result) => result.view.resize().runAsync();
    drawn
      .then((result) => {
        addEventListener("resize", () => layOutAgain(result));
        return layOutAgain(result);
      })
      .then(() => { figure.dataset.drawn = "true"; })
      .catch(console.error);
    drawn.catch(console.error);
    return drawn;
  };
  const waiting = new Set(document.querySelectorAll("figure"));
  const drawWhatShows = () => {
    for (const figure of waiting) {
      if (figure.closest("details:not([open])")) continue;
      waiting.delete(figure);
      const slider = figure.closest(".slider");
      const drawn = draw(figure);
      if (slider) drawn.then((result) => slide(slider, result.view));
    }
  };
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", drawWhatShows);
  }
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    drawWhatShows();
  });

  const slide = (slider, view) => {
    const input = slider.querySelector("input");
    const output = slider.querySelector("output");
    const lines = JSON.parse(slider.querySelector("script.lines").textContent);
    slider.querySelector(".control").hidden = false;
    input.addEventListener("input", () => {
      const share = input.value / 100;
      slider.querySelector("label b").textContent = `${input.value}%`;
      const said = lines.map(({ name, ends: [none, all] }) => {
        const [value, low, high] = none.map((end, i) => (100 * ((1 - share) * end + share * all[i])).toFixed(1));
        const bold = document.createElement("b");
        bold.textContent = name;
        const span = document.createElement("span");
        span.append(bold, ` ${value}% (${low} to ${high})`);
        return span;
      });
      output.replaceChildren(...said);
      view.signal("prevalence", Number(input.value)).run();
    });
  };
  drawWhatShows();
}
