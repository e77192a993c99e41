// The same call as a program: curl, Node, Python. Each sends the text that the page sends, so that
// no number changes on its way; a string of JSON is one of JavaScript and of Python, too.

export type Language = "curl" | "node" | "python";

export function program(language: Language, path: string, body: string): string {
  switch (language) {
    case "curl":
      return curl(path, body);
    case "node":
      return node(path, body);
    case "python":
      return python(path, body);
  }
}

function curl(path: string, body: string): string {
  return [
    `export SOCKEYE=${shellWord(location.origin)}`,
    `curl --fail-with-body "$SOCKEYE${path}" \\`,
    `  -H "Authorization: Bearer \${SOCKEYE_API_KEY:?has to be an API key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${shellWord(body)}`,
  ].join("\n");
}

function node(path: string, body: string): string {
  return [
    `// A module: save it as call.mjs.`,
    `const { SOCKEYE = ${JSON.stringify(location.origin)}, SOCKEYE_API_KEY } = process.env;`,
    `const answer = await fetch(\`\${SOCKEYE}${path}\`, {`,
    `  method: "POST",`,
    `  headers: { Authorization: \`Bearer \${SOCKEYE_API_KEY}\`, "Content-Type": "application/json" },`,
    `  body: ${JSON.stringify(body)},`,
    `});`,
    `console.log(answer.status, await answer.json());`,
  ].join("\n");
}

function python(path: string, body: string): string {
  return [
    `import json, os, urllib.request`,
    ``,
    `address = os.environ.get("SOCKEYE", ${JSON.stringify(location.origin)})`,
    `headers = {`,
    `    "Authorization": "Bearer " + os.environ["SOCKEYE_API_KEY"],`,
    `    "Content-Type": "application/json",`,
    `}`,
    `body = ${JSON.stringify(body)}`,
    `request = urllib.request.Request(address + "${path}", body.encode(), headers)`,
    `with urllib.request.urlopen(request, timeout=70) as answer:`,
    `    print(answer.status, json.load(answer))`,
  ].join("\n");
}

function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
