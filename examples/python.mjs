// A Python with the packages of a folder's requirements.txt, in `.venv` beside it.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The path of its program. It is made once, and again when requirements.txt changes. */
export function pythonOf(folder) {
  const [venv, wanted] = [join(folder, ".venv"), readFileSync(join(folder, "requirements.txt"), "utf8")];
  const [python, complete] = [join(venv, "bin/python"), join(venv, ".complete")];
  if (existsSync(complete) && readFileSync(complete, "utf8") === wanted) return python;
  console.log(`installing the Python packages of ${folder}`);
  // A folder without that file is what an interrupted installation left.
  rmSync(venv, { recursive: true, force: true });
  execFileSync("python3", ["-m", "venv", venv], { stdio: "inherit" });
  execFileSync(python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", join(folder, "requirements.txt")], { stdio: "inherit" });
  writeFileSync(complete, wanted);
  return python;
}
