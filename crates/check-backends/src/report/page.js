const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of document.querySelectorAll("[data-about]")) {
    item.hidden = !words.every((word) => item.dataset.about.includes(word));
  }
  for (const section of document.querySelectorAll("section")) {
    section.hidden = !section.querySelector("tbody tr:not([hidden])");
  }
});
