// Makes the archives that npm and PyPI would get:  node sdk/pack.mjs https://github.com/OWNER/REPO v1.2.3 FOLDER
// Only a release knows where the repository is. Its address goes into the packages, and into the links of their READMEs: those lead
// to files of the repository, which npm and PyPI do not have. Needs npm packages in sdk/node and sdk/client, and Python with venv.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const BUILD = "build==1.6.1";

/** Links of a page in `folder` that lead into the repository, as they are from outside. */
export function outside(page, folder, url, tag) {
  return page.replace(/\]\((?!https?:|#)([^)]+)\)/g, (_, path) => `](${url}/blob/${tag}/${posix.join(folder, path)})`);
}

function edit(path, change) {
  writeFileSync(path, change(readFileSync(path, "utf8")));
}

/** What is packed anew is what `npm pack` chose, with its build. */
function packNode(folder, url, tag, staging, goal) {
  const pack = (cwd, to, ...args) => JSON.parse(execFileSync("npm", ["pack", "--json", "--pack-destination", to, ...args], { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));
  const [{ filename }] = pack(join(ROOT, folder), staging);
  const copy = join(staging, folder);
  mkdirSync(copy, { recursive: true });
  execFileSync("tar", ["-xzf", join(staging, filename), "-C", copy, "--strip-components=1"]);
  edit(join(copy, "README.md"), (page) => outside(page, folder, url, tag));
  edit(join(copy, "package.json"), (text) => {
    const { description, ...rest } = JSON.parse(text);
    const repository = { type: "git", url: `git+${url}.git`, directory: folder };
    const about = { description, version: tag.slice(1), repository, homepage: `${url}/tree/${tag}/${folder}`, bugs: `${url}/issues` };
    return `${JSON.stringify({ ...rest, ...about }, null, 2)}\n`;
  });
  pack(copy, goal, "--ignore-scripts");
}

function packPython(folder, url, tag, staging, goal) {
  const copy = join(staging, folder);
  const isSource = (path) => !/(^|\/)(\.venv|build|tests|__pycache__|[^/]*\.egg-info)$/.test(path);
  cpSync(join(ROOT, folder), copy, { recursive: true, filter: isSource });
  cpSync(join(ROOT, "proto"), join(copy, "proto"), { recursive: true });
  edit(join(copy, "README.md"), (page) => outside(page, folder, url, tag));
  edit(join(copy, "pyproject.toml"), (text) => {
    const urls = `\n[project.urls]\nHomepage = "${url}/tree/${tag}/${folder}"\nRepository = "${url}"\nIssues = "${url}/issues"\n`;
    return text.replace(/^version = .*$/m, `version = "${tag.slice(1)}"`) + urls;
  });
  execFileSync("python3", ["-m", "venv", join(staging, "venv")]);
  const python = (...args) => execFileSync(join(staging, "venv/bin/python"), ["-m", ...args], { stdio: ["ignore", "ignore", "inherit"] });
  python("pip", "install", "--quiet", "--disable-pip-version-check", BUILD);
  python("build", "--outdir", goal, copy);
}

function main([url, tag, folder]) {
  if (!/^https:\/\/[^ ]+[^/]$/.test(url ?? "") || !/^v\d+\.\d+\.\d+/.test(tag ?? "") || !folder) {
    console.error("cannot pack: say `node sdk/pack.mjs https://github.com/OWNER/REPO v1.2.3 FOLDER`");
    process.exit(2);
  }
  const [staging, goal] = [mkdtempSync(join(tmpdir(), "sockeye-pack-")), resolve(folder)];
  mkdirSync(goal, { recursive: true });
  try {
    for (const library of ["sdk/node", "sdk/client"]) packNode(library, url, tag, staging, goal);
    packPython("sdk/python", url, tag, staging, goal);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
