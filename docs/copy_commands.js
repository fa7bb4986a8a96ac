// The copy button of a console block copies what a shell takes: commands, without prompts, comments, and output.
document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest?.("[data-clipboard-target]");
    const block = button?.closest(".language-console");
    if (!block) return;
    const commands = [];
    let continues = false;
    for (const line of block.querySelector("code").textContent.split("\n")) {
      const starts = line.startsWith("$ ");
      if (starts || continues) commands.push(line.replace(/^\$ /, "").replace(/ +# .*$/, ""));
      continues = (starts || continues) && line.endsWith("\\");
    }
    button.dataset.clipboardText = commands.join("\n");
  },
  true, // before the theme's own listener
);
