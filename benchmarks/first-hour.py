"""A person who follows the pages in an empty account:  python3 benchmarks/first-hour.py SOCKEYE [--build SECONDS] [--write]

SOCKEYE is the built binary. It stands for `cargo run --release`, whose time (the build) is said by --build. Files and commands come out of the
pages' own blocks; ports are free ones, and what a page leaves to its reader is said here: two clients, a key in `KEY`, the server to begin with.
Needs Node, npm, python3, curl and openssl. --write keeps the record in benchmarks/results/first-hour.md.
"""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks/results/first-hour.md"
# Of a technical page, with its examples.
WORDS_A_MINUTE = 200
PATIENCE = 60


class Page:
    def __init__(self, path):
        self.name, self.text = path, (ROOT / path).read_text()

    def part(self, title):
        """From a heading to the next of its rank; lines of blocks begin with # as well."""
        lines, rank, fenced = [], 0, False
        for line in self.text.splitlines(keepends=True):
            fenced ^= line.startswith("```")
            head = re.match(r"(#+) (.*)\n", line)
            if head and not fenced:
                if rank and len(head[1]) <= rank:
                    break
                rank = rank or (len(head[1]) if head[2] == title else 0)
            elif rank:
                lines.append(line)
        return "".join(lines)

    def block(self, title, language, name=""):
        """The first one of a part; with a name, the one whose first line is a comment with it."""
        for found, text in re.findall(r"^```(\w+)\n(.*?)^```", self.part(title), re.M | re.S):
            if found == language and re.match(rf"(// |# ){re.escape(name)}\n" if name else "", text):
                return text
        raise SystemExit(f"{self.name}: no block of {language} {name} under {title!r}")

    def command(self, title, begin):
        """One that stands in a block or between quotes."""
        cells = (cell.strip() for line in self.part(title).splitlines() for cell in line.split("`"))
        found = next((cell for cell in cells if cell.startswith(begin)), None)
        return found or sys.exit(f"{self.name}: no command {begin!r} under {title!r}")


class Terminal:
    """A command that goes on, and what it prints."""

    def __init__(self, account, line, folder):
        self.account = account
        self.screen = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=folder, env=account.env, stdout=self.screen, stderr=subprocess.STDOUT)
        account.open.append(self)

    def text(self):
        self.screen.seek(0)
        return self.screen.read()

    def shows(self, pattern, times=1):
        deadline = time.monotonic() + PATIENCE
        while len(re.findall(pattern, self.text(), re.M)) < times:
            if time.monotonic() > deadline:
                sys.exit(f"{pattern!r} was not shown:\n" + "\n---\n".join(terminal.text() for terminal in self.account.open))
            time.sleep(0.02)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)


class Account:
    """An empty home, the binary on the path, and a record of what was done."""

    def __init__(self, home, binary):
        self.home, self.open, self.rows, self.log = home, [], [], []
        (home / "bin").mkdir()
        (home / "bin/sockeye").symlink_to(binary)
        tools = dict.fromkeys(os.path.dirname(os.path.realpath(shutil.which(tool))) for tool in ("node", "npm"))
        tools = dict.fromkeys([os.path.dirname(shutil.which("node")), *tools])
        self.public = self.admin = self.workers = 0
        path = ":".join([str(home / "bin"), *tools, "/usr/local/bin:/usr/bin:/bin"])
        self.env = {"HOME": str(home), "PATH": path, "SOCKEYE__SERVER__ADMIN": "127.0.0.1:0", "NO_COLOR": "1"}
        self.begun, self.commands, self.words = time.monotonic(), 0, 0

    def read(self, text):
        self.words += len(text.split())

    def local(self, text):
        for port, own in ((3000, self.public), (9090, self.admin), (9091, self.workers)):
            text = re.sub(rf"(localhost|127\.0\.0\.1):{port}\b", rf"\1:{own}", text)
        return text

    def told(self, line, shown):
        self.commands += 1
        shown = re.sub(r"\s+#.*$", "", shown)
        self.log.append(f"{time.monotonic() - self.begun:7.1f} s  $ {shown}")

    def types(self, line, folder):
        """A command that ends."""
        self.told(line, line)
        done = subprocess.run(["sh", "-ec", self.local(line)], cwd=folder, env=self.env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def starts(self, line, folder):
        self.told(line, line)
        return Terminal(self, self.local(re.sub(r"\s+#.*$", "", line)), folder)

    def gateway(self, line, folder):
        """`cargo run --release -- …`, and on a port that is free."""
        self.told(line, line)
        started = re.sub(r"^cargo run --release( --)?|^sockeye\b", "sockeye", re.sub(r"\s+#.*$", "", line))
        terminal = Terminal(self, f"{started} --listen 127.0.0.1:0", folder)
        terminal.shows("listening")
        ports = dict(re.findall(r'"(addresses|admin|workers)":"127\.0\.0\.1:(\d+)"', terminal.text()))
        self.public, self.admin, self.workers = (ports.get(name, 0) for name in ("addresses", "admin", "workers"))
        return terminal

    def reaches(self, goal, pages):
        self.log.append(f"{time.monotonic() - self.begun:7.1f} s  {goal}")
        self.rows.append((goal, pages, self.commands, self.words, time.monotonic() - self.begun))

    def close(self):
        for terminal in self.open:
            if terminal.process.poll() is None:
                terminal.end(signal.SIGKILL)


def folder(account, name):
    (account.home / name).mkdir()
    return account.home / name


def chat_page(account, readme):
    here = folder(account, "try")
    account.read(readme.text.partition("\n## ")[0] + readme.part("Try it").partition("![")[0])
    account.gateway(readme.command("Try it", "cargo run --release"), here)
    with urllib.request.urlopen(f"http://127.0.0.1:{account.public}/", timeout=PATIENCE) as page:
        assert page.status == 200 and "<html" in page.read().decode()
    account.reaches("the chat page", "README, Try it")
    account.read(readme.part("Try it").partition("![")[2])
    account.types("npm install --no-audit --no-fund socket.io-client", here)
    (here / "chat.mjs").write_text(account.local(readme.block("Try it", "js")))
    first = account.starts("node chat.mjs", here)
    first.shows(" hello$")
    account.starts("node chat.mjs", here)
    first.shows(" hello$", 2)
    account.reaches("two programs talk in a room", "README, Try it")
    for terminal in account.open:
        terminal.end()
    return here


def own_event(account, readme, modules):
    here = folder(account, "own")
    shutil.copytree(modules / "node_modules", here / "node_modules", symlinks=True)
    account.read(readme.part("Your own events"))
    (here / "sockeye.toml").write_text(readme.block("Your own events", "toml"))
    gateway = account.gateway(readme.command("Your own events", "cargo run --release"), here)
    program = 'import { io } from "socket.io-client";\n' + readme.block("Your own events", "js")
    (here / "game.mjs").write_text(account.local(program))
    first = account.starts("node game.mjs", here)
    gateway.shows('"message":"connected"')
    account.starts("node game.mjs", here)
    first.shows("^somebody moved to 1 2$")
    account.reaches("an event of one's own", "README, Your own events")
    for terminal in account.open[-3:]:
        terminal.end()


def token_and_publish(account, page, modules):
    here = folder(account, "service")
    shutil.copytree(modules / "node_modules", here / "node_modules", symlinks=True)
    account.read(page.text.partition("\n## ")[0])
    for title in ("1. A secret and a key", "2. The configuration", "3. A token", "4. A client"):
        account.read(page.part(title))
    account.types(page.command("1. A secret and a key", "openssl"), here)
    said = account.types(page.command("1. A secret and a key", "sockeye api-key"), here)
    entry, account.env["KEY"] = re.search(r'entry\s+"([^"]+)"', said).group(1), re.search(r"(sockeye_\S+)", said).group(1)
    config = page.block("2. The configuration", "toml", "sockeye.toml")
    assert "shop:…:emit" in config
    (here / "sockeye.toml").write_text(config.replace("shop:…:emit", entry))
    account.types(page.command("2. The configuration", "sockeye config check"), here)
    account.gateway(page.command("2. The configuration", "sockeye --config"), here)
    for title, language, name in (("3. A token", "js", "token.mjs"), ("3. A token", "python", "make_token.py"), ("4. A client", "js", "client.mjs")):
        (here / name).write_text(page.block(title, language, name))
    account.types(page.command("3. A token", "node token.mjs ada"), here)
    assert account.types(page.command("3. A token", "sockeye token check"), here).startswith("accepted")
    ada = account.starts(page.command("4. A client", 'node client.mjs http://localhost:3000 "$(cat'), here)
    ada.shows("^connected$")
    account.starts(page.command("4. A client", 'node client.mjs http://localhost:3000 "$(node'), here)
    ada.shows("^somebody moved to 1 2$")
    account.reaches("an own event with tokens", "first-service.md, 1 to 4")
    account.read(page.part("5. A program that publishes"))
    account.types(page.command("5. A program that publishes", "curl"), here)
    ada.shows("^news: the game begins$")
    account.reaches("a publish by curl", "first-service.md, 5")
    for terminal in account.open[-3:]:
        terminal.end()


# What the reader had before: the block of the page with the import that its comment names, and a server to begin with.
BEFORE = """import { createServer } from "node:http";
const httpServer = createServer().listen(0, () => console.log("port", httpServer.address().port));
"""
CLIENT = """import { io } from "socket.io-client";
const socket = io(process.argv[2], { auth: { token: "ada" } });
socket.on("connect", () => console.log("connected"));
socket.on("disconnect", (reason) => console.log("disconnected", reason));
setInterval(() => socket.emit("order", "soup", (when) => console.log("order:", when)), 200);
"""


def same_server(account, page):
    shutil.copytree(ROOT / "sdk/node", account.home / "sockeye/sdk/node", ignore=shutil.ignore_patterns("node_modules", "dist"))
    shutil.copytree(ROOT / "proto", account.home / "sockeye/proto")
    here = folder(account, "kitchen")
    program = page.block("@sockeye/server", "js")
    changed, was = re.search(r'^import .*? from "(.*?)"; // was: from "(.*?)"$', program, re.M).groups()
    server = BEFORE + program.replace(f'"{changed}"', f'"{was}"')
    (here / "server.mjs").write_text(server)
    (here / "client.mjs").write_text(CLIENT)
    account.types("npm install --no-audit --no-fund socket.io socket.io-client", here)
    old = account.starts("node server.mjs", here)
    old.shows(r"^port \d+$")
    client = account.starts(f"node client.mjs http://localhost:{old.text().split()[1]}", here)
    client.shows("^order: soon$")
    client.end()
    old.end(signal.SIGKILL)
    account.begun, account.commands, account.words = time.monotonic(), 0, 0
    account.read(page.text.partition("\n## ")[0] + page.part("Installing it"))
    for begin, place in (("cd sdk/node", account.home / "sockeye"), ("npm install", here)):
        account.types(re.sub(r"\s+#.*$", "", page.command("Installing it", begin)), place)
    said = account.types("sockeye init --worker", here)
    account.env["SOCKEYE_KEY"] = re.search(r"SOCKEYE_KEY=(\S+)", said).group(1)
    config = here / "sockeye.toml"
    backend = re.search(r"^\[backends\.(\w+)\]", config.read_text(), re.M).group(1)
    config.write_text(config.read_text().replace("127.0.0.1:9091", "127.0.0.1:0"))
    account.gateway("sockeye", here)
    own = re.search(r'backend: "(\w+)"', program).group(1)
    (here / "server.mjs").write_text(account.local(BEFORE + program.replace(f'backend: "{own}"', f'backend: "{backend}"')))
    worker = account.starts("node server.mjs", here)
    client = account.starts(f"node client.mjs http://localhost:{account.public}", here)
    client.shows("^order: soon$")
    account.reaches("the same Socket.IO server behind the gateway", "sdk/node/README.md")
    worker.end(signal.SIGKILL)
    answered = client.text().count("order: soon")
    account.starts("node server.mjs", here)
    client.shows("^order: soon$", answered + 3)
    assert "disconnected" not in client.text(), client.text()
    account.reaches("kill -9 of the server and a new one: its client stays connected", "sdk/node/README.md")


def record(account, build):
    lines = ["# The first hour", ""]
    lines += [
        "Made by `python3 benchmarks/first-hour.py SOCKEYE --build SECONDS --write`: a script in an empty account types the commands of README,",
        f"docs/first-service.md and sdk/node/README.md, and waits for what they promise. {datetime.date.today()}, {os.cpu_count()} cores, a load of",
        f"{os.getloadavg()[0]:.0f}, npm with an empty cache. *Machine*: seconds since the start, without the build of the gateway. *Reading*: the words of these",
        f"parts, {WORDS_A_MINUTE} a minute, which is an assumption. *In all*: both, and {build:.0f} s of build. The server is counted anew, without what came before.",
        "",
        "| goal | page | commands | words | machine, s | in all, min |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for goal, pages, commands, words, seconds in account.rows:
        minutes = (seconds + build) / 60 + words / WORDS_A_MINUTE
        lines.append(f"| {goal} | {pages} | {commands} | {words} | {seconds:.1f} | {minutes:.1f} |")
    return "\n".join([*lines, "", "```text", *(line.replace(str(account.home), "~") for line in account.log), "```", ""])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("sockeye")
    arguments.add_argument("--build", type=float, default=0)
    arguments.add_argument("--write", action="store_true")
    said = arguments.parse_args()
    readme, service, library = Page("README.md"), Page("docs/first-service.md"), Page("sdk/node/README.md")
    with tempfile.TemporaryDirectory() as home:
        account = Account(pathlib.Path(home), pathlib.Path(said.sockeye).resolve())
        try:
            modules = chat_page(account, readme)
            own_event(account, readme, modules)
            token_and_publish(account, service, modules)
            same_server(account, library)
        finally:
            account.close()
        text = record(account, said.build)
    print(text)
    if said.write:
        RECORD.write_text(text)
    print(f"{len(account.rows)} passed, 0 failed")


if __name__ == "__main__":
    main()
