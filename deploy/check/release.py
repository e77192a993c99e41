"""What a release has: packages, notes, signatures, licences, and the workflows that make them."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile

from ground import ROOT, check, load, read, run, step


@check
def package_has_what_it_names():
    manifest = tomllib.loads(read("crates/gateway/Cargo.toml"))["package"]["metadata"]["deb"]
    made = ("target/",)
    for source, target, mode in manifest["assets"]:
        path = (ROOT / "crates/gateway" / source).resolve()
        is_made = source.startswith(made) or source.startswith("../../target/")
        assert is_made or path.is_file(), source
        assert re.fullmatch(r"[67][45]{2}", mode), (target, mode)
    assert (ROOT / "crates/gateway" / manifest["systemd-units"]["unit-scripts"] / "sockeye.service").is_file()
    installed = {target + pathlib.Path(source).name for source, target, _ in manifest["assets"]}
    for conf in manifest["conf-files"]:
        assert conf.lstrip("/") in installed, conf


@check
def workflows_run_what_exists():
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for job in load(path)["jobs"].values():
            # A step of the nights builds an earlier commit, and a checkout brings the last one alone.
            if any("xtask test nightly" in it.get("run", "") for it in job["steps"]):
                [checkout] = [it for it in job["steps"] if it.get("uses", "").startswith("actions/checkout@")]
                assert checkout.get("with", {}).get("fetch-depth") == 0, checkout
            for it in job["steps"]:
                assert ("run" in it) != ("uses" in it), it
                uses = it.get("uses")
                assert uses is None or re.search(r"@[0-9a-f]{40}$", uses), f"{uses} is whatever its owner says today"
                for words in re.findall(r"cargo install [^&\n]*", it.get("run", "")):
                    assert "--locked" in words and re.search(r"@\d+\.\d+\.\d+", words), words
    assert "cargo xtask dist" in read(".github/workflows/release.yml")
    assert os.access(ROOT / ".ci/run", os.X_OK)


@check
def release_notes_are_the_versions_part_of_the_changelog():
    _, notes = step("release", "release", "notes")
    log = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.2.3] - 2027-01-01\n\n### Added\n\n- a [page](docs/a.md#b), [outside](https://example.org/)\n\n## [1.2.30] - 2026-01-01\n\n- old\n"
    env = {**os.environ, "GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "o/r"}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "CHANGELOG.md").write_text(log)
        for version, code in (("v1.2.3", 0), ("v1.2.4", 1)):
            done = subprocess.run(["bash", "-ec", notes["run"]], cwd=folder, env={**env, "GITHUB_REF_NAME": version}, capture_output=True, text=True)
            assert done.returncode == code, (version, done)
            if code == 0:
                made = pathlib.Path(folder, "notes.md").read_text()
        assert "## [1.2.4]" in done.stdout, done
    links = "- a [page](https://git.example/o/r/blob/v1.2.3/docs/a.md#b), [outside](https://example.org/)"
    assert made.strip() == f"### Added\n\n{links}", made
    assert re.search(r"^## \[Unreleased\]$", read("CHANGELOG.md"), re.M)


@check
def all_that_is_released_is_signed_before_anybody_has_it():
    file = load(".github/workflows/release.yml")
    assert file["permissions"] == {"contents": "read"}, file["permissions"]
    may = {name: job.get("permissions", {}) for name, job in file["jobs"].items()}
    assert may["release"] == {"contents": "write", "id-token": "write", "attestations": "write"}, may
    assert all(permissions.keys() <= {"contents", "packages"} for name, permissions in may.items() if name != "release"), may
    signing, sign = step("release", "release", "actions/attest-build-provenance")
    commands = [it.get("run", "") for it in file["jobs"]["release"]["steps"]]
    [release] = [at for at, run in enumerate(commands) if "gh release create" in run]
    [sums] = [at for at, run in enumerate(commands) if "SHA256SUMS" in run]
    assert sign["with"]["subject-path"] == "dist/*" and sums < signing < release and commands[release].endswith(" dist/*"), commands
    assert any("cyclonedx" in run and "dist/" in run for run in commands[:sums]), commands
    for package in ("node", "client"):
        assert json.loads(read(f"sdk/{package}/package.json"))["publishConfig"] == {"access": "public", "provenance": True}
    jobs = load(".github/workflows/publish.yml")["jobs"]
    assert all(jobs[name]["permissions"] == {"id-token": "write"} and jobs[name]["needs"] == "archives" for name in ("npm", "pypi")), jobs
    assert any("gh attestation verify" in it.get("run", "") for it in jobs["archives"]["steps"]), jobs


@check(needs="DEB")
def package_in_a_debian_that_has_nothing_else():
    """Only where DEB names it: installed, its unit as systemd reads it, upgraded over an edited configuration, removed, purged."""
    assert shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin"), "no debootstrap: apt-get install debootstrap"
    as_root = [] if os.geteuid() == 0 else ["sudo"]

    def does(*words):
        code, said = run(*as_root, *words)
        assert code == 0, (words, said[-2000:])
        return said

    root = pathlib.Path(tempfile.mkdtemp(), "debian")
    inside = lambda *words: does("chroot", str(root), *words)
    try:
        does("debootstrap", "--variant=minbase", "--include=ca-certificates,systemd", "bookworm", str(root))
        does("cp", os.environ["DEB"], f"{root}/sockeye.deb")
        inside("dpkg", "--install", "/sockeye.deb")
        inside("sockeye", "--version")
        inside("sockeye-bench", "--version")
        inside("sockeye", "config", "check", "--config", "/etc/sockeye/sockeye.toml")
        said = inside("systemd-analyze", "verify", "--man=no", "sockeye.service")
        assert "sockeye" not in said, said
        wanted = [path for path in (root / "etc/systemd/system").rglob("sockeye.service") if path.parent.suffix == ".wants"]
        assert not wanted, f"it listens to everybody before it is configured: {wanted}"
        for file in ("usr/share/man/man1/sockeye.1.gz", "usr/share/bash-completion/completions/sockeye", "usr/share/doc/sockeye/copyright"):
            assert (root / file).is_file(), file
        config, unit = root / "etc/sockeye/sockeye.toml", root / "lib/systemd/system/sockeye.service"
        inside("sh", "-c", "echo 'profile = \"plain\"' > /etc/sockeye/sockeye.toml")
        inside("dpkg", "--install", "/sockeye.deb")
        assert config.read_text() == 'profile = "plain"\n' and unit.is_file(), config.read_text()
        inside("dpkg", "--remove", "sockeye")
        assert config.is_file() and not unit.exists() and not (root / "usr/bin/sockeye").exists()
        inside("dpkg", "--purge", "sockeye")
        assert not config.exists()
    finally:
        does("rm", "-rf", str(root.parent))


def texts_of(archive):
    """Files of text in an archive, by their paths without the folder that all are in."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return {name: file.read(name).decode(errors="replace") for name in file.namelist()}
    with tarfile.open(archive) as file:
        members = [member for member in file.getmembers() if member.isfile()]
        return {member.name.partition("/")[2]: file.extractfile(member).read().decode(errors="replace") for member in members}


@check(needs="LIBRARIES")
def libraries_lead_home_from_outside():
    """Only where LIBRARIES names their folder: what npm and PyPI would get of a release v1.2.3."""
    folder, home = pathlib.Path(os.environ["LIBRARIES"]), "https://example.org/o/r"
    kinds = {name: sorted(folder.glob(f"*{name}")) for name in (".tgz", ".tar.gz", ".whl")}
    assert [len(found) for found in kinds.values()] == [2, 1, 1] and len(list(folder.iterdir())) == 4, kinds
    for archive in sorted(folder.iterdir()):
        files = texts_of(archive)
        if archive.suffix == ".tgz":
            about, page = json.loads(files["package.json"]), files["README.md"]
            told = [about["version"], about["repository"]["url"], about["homepage"]]
            wanted = ["1.2.3", f"git+{home}.git", f"{home}/tree/v1.2.3/{about['repository']['directory']}"]
            assert "private" not in about, archive
        else:
            [page] = [text for name, text in files.items() if re.fullmatch(r"PKG-INFO|[^/]+\.dist-info/METADATA", name)]
            told = re.findall(r"^(?:Version|Project-URL): (.*)$", page, re.M)[:3]
            wanted = ["1.2.3", f"Homepage, {home}/tree/v1.2.3/sdk/python", f"Repository, {home}"]
        assert told == wanted, (archive, told)
        assert f"]({home}/blob/v1.2.3/" in page, f"{archive}: its README leads nowhere"
        pages = {name: text for name, text in files.items() if name == "README.md"} | {"about": page}
        astray = [(name, re.findall(r"\]\((?!https?:|#)[^)]*\)", text)) for name, text in pages.items()]
        assert not any(links for _, links in astray), (archive, astray)
        assert any(pathlib.PurePath(name).name == "LICENSE" for name in files), f"{archive}: no LICENSE"


@check
def licences_are_told():
    notices = read("THIRD-PARTY-NOTICES.md")
    for crate in ("rustls", "tokio", "serde_json", "mimalloc"):
        assert re.search(rf"^\| {crate} \| ", notices, re.M), crate
    assert "MIT" in read("web/bundles/LICENSE-socket.io-client")
