"""The unit, by its words and as systemd reads it."""

import pathlib
import shutil
import tempfile

from ground import NotRun, ROOT, SOCKEYE, check, drain_seconds, read, run, seconds


def unit():
    fields = {}
    for line in read("deploy/systemd/sockeye.service").splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            fields.setdefault(name, []).append(value)
    return fields


@check
def unit_stops_later_than_the_drain():
    assert seconds(unit()["TimeoutStopSec"][0]) > drain_seconds()
    assert unit()["RestartPreventExitStatus"] == ["2"]


@check
def unit_brings_secrets_to_a_user_that_owns_nothing():
    assert unit()["DynamicUser"] == ["yes"] and unit()["EnvironmentFile"] == ["-/etc/sockeye/environment"], unit()


@check
def unit_starts_what_exists():
    words = [SOCKEYE if word == "/usr/bin/sockeye" else word for word in unit()["ExecStart"][0].split()]
    words[words.index("--config") + 1] = str(ROOT / "config/sockeye.toml")
    code, text = run(words[0], "config", "check", *words[1:])
    assert code == 0, text
    assert "HUP" in unit()["ExecReload"][0]


@check
def unit_was_started_again_each_second_with_a_wrong_configuration():
    """`RestartPreventExitStatus` is about the main process: a check before it, which failed with 1, was repeated for ever."""
    assert "ExecStartPre" not in unit(), unit()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sockeye.toml"
        path.write_text("[server]\nport = 3000\n")
        code, text = run(SOCKEYE, "--config", str(path))
    assert [str(code)] == unit()["RestartPreventExitStatus"] and "server.port" in text, (code, text)


@check
def unit_has_a_place_for_the_folders_of_stores():
    assert unit()["ProtectSystem"] == ["strict"] and unit()["StateDirectory"] == ["sockeye"], unit()
    assert "/var/lib/sockeye" in read("docs/operations.md")


@check
def unit_is_sound_to_systemd():
    if not shutil.which("systemd-analyze"):
        raise NotRun("systemd-analyze is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sockeye.service"
        text = read("deploy/systemd/sockeye.service")
        path.write_text(text.replace("/usr/bin/sockeye", str(pathlib.Path(SOCKEYE).resolve())))
        code, said = run("systemd-analyze", "verify", "--man=no", str(path))
        assert code == 0 and "sockeye.service" not in said, said
        code, said = run("systemd-analyze", "security", "--offline=true", "--threshold=20", str(path))
        assert code == 0, said
