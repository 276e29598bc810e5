// A place for the servers of a pretend ensemble.

import { h, put } from "./dom.js";

export function open(place) {
  put(place, h("div", { class: "empty" },
    h("h1", {}, "Ensemble"),
    h("p", {}, "The servers of a pretend ensemble will be shown here: who leads, who lags, who is cut off. Until then GET /api/v1/ensemble tells it.")));
  return {};
}
