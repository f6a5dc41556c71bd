//! Checks of how the page is made, run in the page itself.

use serde_json::json;

use super::browser::Browser;

/// Texts whose contrast with their ground is below WCAG AA (4.5 to 1).
const PALE: &str = r#"(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    const colour = rgba(getComputedStyle(node).backgroundColor);
    return colour[3] === 255 || node.parentElement === null ? colour : ground(node.parentElement);
  };
  const pale = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const node = text.parentElement;
    if (text.data.trim() === "" || !node.checkVisibility() || node.closest("noscript, .skip, .unseen")) continue;
    const [a, b] = [light(rgba(getComputedStyle(node).color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.push(`${text.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return pale;
})()"#;

/// What a screen reader would miss.
const MUTE: &str = r#"(() => {
  const without = (selector, has) => [...document.querySelectorAll(selector)]
    .filter((node) => !has(node)).map((node) => node.outerHTML.slice(0, 120));
  const named = (node) => document.getElementById(node.getAttribute("aria-labelledby"))?.textContent.length > 0;
  return [
    ...without("main section", named),
    ...without("table", (node) => node.querySelector("caption")?.textContent.length > 0),
    ...without("table th", (node) => node.getAttribute("scope") !== null),
    ...without("svg", (node) => node.getAttribute("aria-hidden") === "true" || node.getAttribute("aria-label")?.length > 0),
    ...without("input", (node) => node.labels.length > 0),
    ...["header", "main", "footer", "h1", "[aria-live]", "[role=alert]"].filter((one) => !document.querySelector(one)),
  ];
})()"#;

/// Things that are not text in a page of texts.
const STRUCK: &str = r#"({
  struck: globalThis.struck ?? null,
  foreign: document.querySelectorAll("main img, main script, main iframe, main style, main b b").length,
})"#;

/// Asserts that everybody can read the page as it stands, on this screen.
pub(crate) fn is_legible(browser: &mut Browser, when: &str) {
    assert_eq!(browser.run(PALE), json!([]), "{when}: too pale");
    assert_eq!(browser.run(MUTE), json!([]), "{when}: mute");
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.run(overflow), 0, "{when}: wider than the screen");
}

/// Asserts that nothing that came from outside became more than text.
pub(crate) fn is_unharmed(browser: &mut Browser) {
    assert_eq!(browser.run(STRUCK), json!({ "struck": null, "foreign": 0 }));
}
