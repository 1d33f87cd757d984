// Draws each chart when it comes near the window, and again when light and dark change.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const places = [...document.querySelectorAll(".view")];
  const drawn = new Map();

  async function draw(place) {
    const { data, spec } = charts.views[place.dataset.view];
    const options = {
      actions: false,
      renderer: "canvas",
      config: dark.matches ? charts.dark : charts.light,
      tooltip: { theme: dark.matches ? "dark" : "light" },
      // Whatever a chart might name, nothing is loaded.
      loader: { load: () => Promise.reject(new Error("a report loads nothing")) },
    };
    drawn.get(place)?.finalize();
    const { view, finalize } = await vegaEmbed(place, { ...spec, datasets: { rows: charts.data[data] } }, options);
    drawn.set(place, { view, finalize });
    place.dataset.drawn = dark.matches ? "dark" : "light";
  }

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        draw(target).catch((error) => console.error(error));
      }
    },
    { rootMargin: "800px" },
  );
  places.forEach((place) => near.observe(place));
  dark.addEventListener("change", () => [...drawn.keys()].forEach((place) => draw(place)));

  // The section that is being read is marked above.
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const read = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        links.get(target.id)?.classList.toggle("here", isIntersecting);
      }
    },
    { rootMargin: "-20% 0px -70% 0px" },
  );
  document.querySelectorAll("section[id]").forEach((section) => read.observe(section));
})();
