// The headless browser with a window of this width.
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

export async function launched(width) {
  chromium.setGraphicsMode = false;
  return puppeteer.launch({
    executablePath: await chromium.executablePath(),
    args: chromium.args,
    headless: "shell",
    defaultViewport: { width: Number(width), height: 900 },
  });
}
