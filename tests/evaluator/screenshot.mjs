// Opens a page in a real browser, writes a picture of it, and prints what the browser found.
//
//     node tests/evaluator/screenshot.mjs PAGE.html PICTURE.png WIDTH
import { once } from "node:events";
import { launched } from "../support/browser.mjs";

const [page, picture, width] = process.argv.slice(2);
const browser = await launched(width);
const tab = await browser.newPage();
const asked = [];
const errors = [];
tab.on("request", (request) => request.url().startsWith("data:") || asked.push(request.url()));
tab.on("console", (message) => errors.push(message.text()));
tab.on("pageerror", (error) => errors.push(String(error)));
await tab.goto(`file://${page}`, { waitUntil: "load" });
const found = await tab.evaluate(() => ({
  title: document.title,
  headings: [...document.querySelectorAll("h1, h2")].map((heading) => heading.innerText),
  pictures: [...document.images].map((image) => ({ alt: image.alt, width: image.naturalWidth })),
  wider: document.documentElement.scrollWidth - window.innerWidth,
}));
await tab.screenshot({ path: picture, fullPage: true });
const gone = once(browser.process(), "exit");
await browser.close();
await gone;
console.log(JSON.stringify({ ...found, asked, errors }));
