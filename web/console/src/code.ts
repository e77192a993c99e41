// The same call as a program: curl, Node, Python.

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
    `export SOCKEYE=${shellWord(location.origin)} SOCKEYE_API_KEY=…`,
    `curl --fail-with-body "$SOCKEYE${path}" \\`,
    `  -H "Authorization: Bearer $SOCKEYE_API_KEY" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${shellWord(body)}`,
  ].join("\n");
}

function node(path: string, body: string): string {
  return [
    `const { SOCKEYE = ${JSON.stringify(location.origin)}, SOCKEYE_API_KEY } = process.env;`,
    `const answer = await fetch(\`\${SOCKEYE}${path}\`, {`,
    `  method: "POST",`,
    `  headers: { Authorization: \`Bearer \${SOCKEYE_API_KEY}\`, "Content-Type": "application/json" },`,
    `  body: JSON.stringify(${body}),`,
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
    `body = ${pythonValue(JSON.parse(body))}`,
    `request = urllib.request.Request(address + "${path}", json.dumps(body).encode(), headers)`,
    `with urllib.request.urlopen(request, timeout=70) as answer:`,
    `    print(answer.status, json.load(answer))`,
  ].join("\n");
}

function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function pythonValue(value: unknown): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value);
  return `{${members.map(([name, of]) => `${JSON.stringify(name)}: ${pythonValue(of)}`).join(", ")}}`;
}
