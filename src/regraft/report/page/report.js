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
  for (const data of document.querySelectorAll("script.spec")) {
    const place = data.parentElement.querySelector(".chart");
    vegaEmbed(place, JSON.parse(data.textContent), options).catch(console.error);
  }
}
