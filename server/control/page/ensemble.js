// A place for the servers of a pretend ensemble.

import { h, put } from "./dom.js";

export function open(place) {
  put(place, h("div", { class: "empty" },
    h("h1", {}, "One server"),
    h("p", {}, "This server stands alone. When several pretend servers run in one process, they are shown here: who leads, who lags, who is cut off.")));
  return {};
}
