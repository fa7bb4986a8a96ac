// Opens pages of the site, and types words into its search.
// Usage: node browse.mjs ADDRESS WIDTH '["page/", ...]' '["word", ...]'; prints JSON.
import { launched } from "../support/browser.mjs";

const [address, width, pages, words] = process.argv.slice(2);
const browser = await launched(width);
// Blocks that must not be cut: commands without output, and Python.
const blocks = ".language-console:not(:has(.go)) pre > code, .language-python pre > code";
const found = { wider: {}, cut: {}, loaded: [], hits: {}, elsewhere: [], errors: [] };
try {
  const tab = await browser.newPage();
  tab.on("pageerror", (error) => found.errors.push(String(error)));
  tab.on("request", (request) => {
    found.loaded.push(new URL(request.url()).pathname);
    if (!request.url().startsWith(address) && !request.url().startsWith("data:")) found.elsewhere.push(request.url());
  });
  for (const page of JSON.parse(pages)) {
    await tab.goto(address + page, { waitUntil: "load" });
    found.wider[page] = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    found.cut[page] = await tab.$$eval(blocks, (all) =>
      all.filter((code) => code.scrollWidth > code.clientWidth).map((code) => code.textContent),
    );
  }
  for (const word of JSON.parse(words)) {
    await tab.goto(`${address}?q=${encodeURIComponent(word)}`, { waitUntil: "load" });
    await tab.waitForSelector(".md-search-result__item a", { timeout: 30000 });
    found.hits[word] = await tab.$$eval(".md-search-result__item", (items) =>
      items.slice(0, 3).map((item) => new URL(item.querySelector("a").href).pathname),
    );
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
