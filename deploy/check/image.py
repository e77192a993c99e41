"""The image: its file, its source, and its stages as far as they go without a container."""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib

from ground import NotRun, ROOT, SOCKEYE, check, default, free_port, read, run


def instructions(text):
    """(word, arguments) of each instruction, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


@check
def dockerfile():
    text = read("deploy/docker/Dockerfile")
    steps = instructions(text)
    known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "EXPOSE", "USER", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"}
    assert {word for word, _ in steps} <= known, steps
    last = max(index for index, (word, _) in enumerate(steps) if word == "FROM")
    assert last > 0, "one stage: the compiler would be in the image"
    final = dict(steps[last:])
    assert final["USER"] == "nonroot" and final["FROM"].endswith(":nonroot"), final
    json.loads(final["ENTRYPOINT"])
    health = final["HEALTHCHECK"]
    words = json.loads(health[health.index("CMD") + 3 :])
    assert words[0] == json.loads(final["ENTRYPOINT"])[0], "the image has no other program"
    assert "--ready" not in words, "an image that is not ready would be replaced"
    code, text = run(SOCKEYE, *words[1:], "--help")
    assert code == 0, text


@check
def dockerfile_copies_what_is_there():
    for word, rest in instructions(read("deploy/docker/Dockerfile")):
        if word == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert source == "." or (ROOT / source).exists(), source
    ignored = read(".dockerignore").splitlines()
    assert "target" in ignored and ".git" in ignored, ignored


def is_ignored(path):
    """By .dockerignore, whose patterns also mean all that is below."""
    places = [path, *path.parents]
    patterns = [line for line in read(".dockerignore").splitlines() if line and not line.startswith("#")]
    return any(fnmatch.fnmatchcase(str(place), form) for place in places for pattern in patterns for form in (pattern, pattern.removeprefix("**/")))


@check
def source_of_the_image_is_whole():
    """Cargo wrote down which files the binary is made of: .dockerignore keeps none of them back but the commit's name."""
    notes = pathlib.Path(f"{SOCKEYE}.d")
    # CARGO_TARGET_DIR may have it elsewhere.
    around = notes.resolve().parents[2]
    built = around if (around / "Cargo.toml").is_file() else ROOT
    if not notes.is_file() or str(built) not in notes.read_text():
        raise NotRun(f"no {notes} in target/PROFILE, where cargo writes it")
    files = [pathlib.Path(os.path.normpath(file)) for file in notes.read_text().partition(": ")[2].split()]
    # The folder of git is elsewhere if this is one of several working trees.
    files = [file for file in files if ".git" not in file.parts]
    needed = {file.relative_to(built) for file in files} | {pathlib.Path(name) for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml")}
    needed = {file for file in needed if file.parts[0] != "target"}
    assert len(needed) > 300 and is_ignored(pathlib.Path("target/ci/sockeye")) and is_ignored(pathlib.Path("web/node_modules/x")), len(needed)
    kept_back = sorted(str(file) for file in needed if is_ignored(file))
    assert not kept_back, kept_back


@check
def stages_of_the_image_without_a_container():
    """As far as that goes: what RUN does after the compiler, and the last stage in a chroot, as its user, until its health check passes and its
    signal ends it. The binary is the one given; in the place of the base image stand this system's C library and nothing else."""
    if os.geteuid() != 0:
        raise NotRun("chroot needs root")
    steps = instructions(read("deploy/docker/Dockerfile"))
    stages = [index for index, (word, _) in enumerate(steps) if word == "FROM"]
    first, final = steps[stages[0] : stages[1]], steps[stages[-1] :]
    words = [word for word in dict(first)["RUN"].split() if not word.startswith("--mount=")]
    build, *others = " ".join(words).split(" && ")
    parts = re.search(r'GATEWAY: &str = "(.*)"', read("xtask/src/dist.rs")).group(1)
    assert build == f"cargo build --profile production --locked {parts}", f"{build}: not the build of `cargo xtask dist`"
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        place.chmod(0o755)
        (place / "target/production").mkdir(parents=True)
        shutil.copy(SOCKEYE, place / "target/production/sockeye")
        for command in others:
            code, said = run("sh", "-c", command.replace("/out/", f"{place}/out/"), cwd=place)
            assert code == 0, f"{command}: {said}"
        image = place / "image"
        for word, rest in final:
            if word == "COPY":
                *sources, target = [part for part in rest.split() if not part.startswith("--")]
                for source in sources:
                    into = image / (target + pathlib.Path(source).name if target.endswith("/") else target).lstrip("/")
                    into.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(place / source.lstrip("/") if "--from=" in rest else ROOT / source, into)
        assert (image / "usr/share/doc/sockeye/LICENSE").is_file()
        code, said = run("ldd", str(image / "usr/bin/sockeye"))
        libraries = re.findall(r"(?:=> |^\s*)(/\S+)", said, re.M)
        strange = [name for name in libraries if not re.match(r"(libc|libm|libgcc_s|libstdc\+\+|ld-linux.*)\.so\.", pathlib.Path(name).name)]
        assert code == 0 and libraries and not strange, f"not in distroless/cc: {strange} of {said}"
        for library in libraries:
            (image / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, image / library.lstrip("/"))
        runs_until_it_is_told_to_stop(image, dict(final))


def runs_until_it_is_told_to_stop(image, settings):
    name, _, admin = settings["ENV"].partition("=")
    public, private = settings["EXPOSE"].split()
    assert admin == f"0.0.0.0:{private}" and default("listen").rstrip('"]').endswith(f":{public}"), settings
    env = {name: admin.replace(private, str(free_port()))}

    def enter():
        os.chroot(image)
        os.chdir("/")
        os.setgroups([])
        os.setgid(65532)
        os.setuid(65532)

    def inside(words):
        return subprocess.Popen(words, env=env, preexec_fn=enter, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    health = json.loads(settings["HEALTHCHECK"].partition("CMD")[2])
    assert inside(health).wait(30) != 0, "healthy before it runs"
    gateway = inside([*json.loads(settings["ENTRYPOINT"]), "--listen", "127.0.0.1:0"])
    try:
        deadline = time.monotonic() + 60
        while inside(health).wait(30) != 0:
            assert gateway.poll() is None, gateway.stdout.read()
            assert time.monotonic() < deadline, "not healthy after a minute"
            time.sleep(0.1)
        gateway.send_signal(getattr(signal, settings["STOPSIGNAL"]))
        assert gateway.wait(60) == 0, gateway.stdout.read()
    finally:
        gateway.kill()


@check
def dockerfile_has_the_compiler_of_the_repository():
    channel = tomllib.loads(read("rust-toolchain.toml"))["toolchain"]["channel"]
    assert f"ARG RUST={channel}\n" in read("deploy/docker/Dockerfile"), channel
    assert f"rust:{channel}-bookworm" in read(".github/workflows/release.yml"), channel
