// Unfolds what a link leads to, and everything before the page is printed.
const unfold = (element) => {
  for (let fold = element?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
};

const follow = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  unfold(target);
  target.scrollIntoView();
};

addEventListener("hashchange", follow);
follow();

const paper = matchMedia("print");
paper.addEventListener("change", () => {
  for (const fold of document.querySelectorAll("details")) {
    if (paper.matches && !fold.open) fold.dataset.folded = "yes";
    if (paper.matches) fold.open = true;
    else if (fold.dataset.folded) fold.open = delete fold.dataset.folded && false;
  }
});
