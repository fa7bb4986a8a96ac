// Clicks the copy button of every console block of pages of the site.
// Usage: node copy.mjs ADDRESS '["page/", ...]'; prints what is copied, by page, as JSON.
import { launched } from "../support/browser.mjs";

const [address, pages] = process.argv.slice(2);
const browser = await launched(1280);
const copied = {};
try {
  await browser.defaultBrowserContext().overridePermissions(address, ["clipboard-read", "clipboard-write"]);
  const tab = await browser.newPage();
  for (const page of JSON.parse(pages)) {
    await tab.goto(address + page, { waitUntil: "load" });
    copied[page] = [];
    for (const block of await tab.$$(".language-console")) {
      const button = await block.waitForSelector("[data-clipboard-target]");
      await button.evaluate((element) => element.click());
      copied[page].push(await tab.evaluate(() => navigator.clipboard.readText()));
    }
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(copied));
