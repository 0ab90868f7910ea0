// Accessibility that the theme leaves out: names of its two side bars, levels of its captions, a heading of the search
// page, and scrolling by keyboard.
document.querySelector(".sidebar-drawer").ariaLabel = "All pages";
document.querySelector(".toc-drawer").ariaLabel = "On this page";
document.querySelectorAll(".caption[role=heading]").forEach((caption) => (caption.ariaLevel = "2"));

if (!document.querySelector("h1")) {
  const heading = Object.assign(document.createElement("h1"), { textContent: "Search" });
  document.querySelector("[role=main]").prepend(heading);
}

// The list of pages is longer than most windows.
document.querySelector(".sidebar-tree .current-page")?.scrollIntoView({ block: "nearest", behavior: "instant" });

// Excerpts of search results are fetched, which browsers refuse to a page opened from a folder.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

const focusWhatScrolls = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll("pre, .table-wrapper").forEach((each) => focusWhatScrolls.observe(each));
