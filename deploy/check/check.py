"""What operators install, checked against the gateway: the image, compose files, chart, unit, package and release.

Each check is a function; it fails by an assertion that says what is wrong. The last line is `N passed, N failed`, and `N skipped` where a
tool is not there. HELM=helm also renders the chart again; WRITE=1 keeps the result.
"""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/sockeye"
RENDERED = DEPLOY / "kubernetes/sockeye.yaml"
SOCKEYE = os.environ["SOCKEYE_BIN"]
# Helm made by `go install` knows no version of Kubernetes.
VERSION = ["--kube-version", "1.31.0"]
# Values with which the chart is rendered into RENDERED; everything optional is on.
OPTIONAL = ("serviceMonitor", "prometheusRule", "networkPolicy")
VALUES = [word for name in OPTIONAL for word in ("--set", f"{name}.enabled=true")] + ["--namespace", "sockeye", *VERSION]


class NotRun(Exception):
    """A tool that is not everywhere."""


def read(path):
    return (ROOT / path).read_text()


def load(path):
    return yaml.safe_load(read(path))


def run(*words, cwd=None):
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)?", str(text)).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, None: 1}[unit]


def default(key):
    """A default from the commented file that the binary makes."""
    code, text = run(SOCKEYE, "config", "reference", "--toml")
    assert code == 0, text
    return re.search(rf"^#{key} = (.*)$", text, re.M).group(1).strip('"')


def drain_seconds():
    return seconds(default("drain_window")) + seconds(default("drain_grace"))


def accepted(config):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sockeye.toml"
        path.write_text(config)
        code, text = run(SOCKEYE, "config", "check", "--config", str(path))
        assert code == 0, f"sockeye config check: {text}"


def manifests():
    documents = [document for document in yaml.safe_load_all(RENDERED.read_text()) if document]
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}


# --- Docker ---------------------------------------------------------------------------------------


def instructions(text):
    """(word, arguments) of each instruction, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


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


def source_of_the_image_is_whole():
    """Cargo wrote down which files the binary is made of: .dockerignore keeps none of them back but the commit's name."""
    notes = pathlib.Path(f"{SOCKEYE}.d")
    built = notes.resolve().parents[2]
    if not notes.is_file() or not (built / "Cargo.toml").is_file():
        raise NotRun(f"no {notes} in target/PROFILE, where cargo writes it")
    files = [pathlib.Path(os.path.normpath(file)) for file in notes.read_text().partition(": ")[2].split()]
    needed = {file.relative_to(built) for file in files} | {pathlib.Path(name) for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml")}
    needed = {file for file in needed if file.parts[0] not in (".git", "target")}
    assert len(needed) > 300 and is_ignored(pathlib.Path("target/ci/sockeye")) and is_ignored(pathlib.Path("web/node_modules/x")), len(needed)
    kept_back = sorted(str(file) for file in needed if is_ignored(file))
    assert not kept_back, kept_back


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
    with socket.create_server(("127.0.0.1", 0)) as free:
        env = {name: admin.replace(private, str(free.getsockname()[1]))}

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


def dockerfile_has_the_compiler_of_the_repository():
    channel = tomllib.loads(read("rust-toolchain.toml"))["toolchain"]["channel"]
    assert f"ARG RUST={channel}\n" in read("deploy/docker/Dockerfile"), channel
    assert f"rust:{channel}-bookworm" in read(".github/workflows/release.yml"), channel


def compose():
    file = load("deploy/docker/compose.yml")
    services = file["services"]
    assert set(services) == {"sockeye", "prometheus", "grafana"}, services
    for name, service in services.items():
        if "build" not in service:
            version = service["image"].rpartition(":")[2]
            assert re.search(r"\d+\.\d+\.\d+", version), f"{name}: {service['image']} is whatever is newest"
        for volume in service.get("volumes", []):
            source = (DEPLOY / "docker" / volume.split(":")[0]).resolve()
            assert source.is_file(), f"{name}: {source} is not there"
        for other in service.get("depends_on", []):
            assert other in services, other
    build = services["sockeye"]["build"]
    assert (DEPLOY / "docker" / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    assert seconds(services["sockeye"]["stop_grace_period"]) > drain_seconds()


def compose_of_a_cluster():
    file = load("deploy/docker/cluster.yml")
    services = file["services"]
    nodes = [name for name in services if name.startswith("node-")]
    assert len(nodes) == 3, nodes
    for name, service in services.items():
        if "build" not in service:
            version = service["image"].rpartition(":")[2]
            assert re.search(r"\d+\.\d+\.\d+", version), f"{name}: {service['image']} is whatever is newest"
        for volume in service.get("volumes", []):
            source = (DEPLOY / "docker" / volume.split(":")[0]).resolve()
            assert source.is_file(), f"{name}: {source} is not there"
        for other in service.get("depends_on", []):
            assert other in services, other
        assert name == "balancer" or "ports" not in service, f"{name} is open to everybody"
    node = services["node-1"]
    assert seconds(node["stop_grace_period"]) > drain_seconds()
    balanced = re.findall(r"^    server (\S+) (\S+):3000$", read("deploy/docker/haproxy.cfg"), re.M)
    assert balanced == [(name, name) for name in nodes], balanced
    given = {**os.environ, **node["environment"], "SOCKEYE__CLUSTER__SECRET": "0" * 64}
    done = subprocess.run([SOCKEYE, "config", "check"], env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    servers = [name for name in services if re.fullmatch(r"redis-\d", name)]
    asked = re.findall(r"redis://(redis-\d):6379", node["environment"]["SOCKEYE__CLUSTER__URLS"])
    assert len(servers) == 6 and set(asked) <= set(servers), asked


def balancer_of_the_cluster_is_sound_to_haproxy():
    if not shutil.which("haproxy"):
        raise NotRun("no haproxy")
    code, said = run("haproxy", "-c", "-f", str(DEPLOY / "docker/haproxy.cfg"))
    assert code == 0, said


def compose_ports_are_apart_and_private():
    taken = set()
    for name, service in load("deploy/docker/compose.yml")["services"].items():
        for port in service["ports"]:
            *host, outside, _ = port.split(":")
            assert outside not in taken, f"{outside} twice"
            taken.add(outside)
            assert (name, outside) == ("sockeye", "3000") or host == ["127.0.0.1"], f"{name}: {port} is open to everybody"


def compose_prometheus_and_grafana_find_each_other():
    targets = load("deploy/docker/prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == ["sockeye:9090"], targets
    ours, shipped = load("deploy/docker/prometheus.yml"), load("deploy/prometheus/prometheus.yml")
    for config in (ours, shipped):
        config["scrape_configs"][0].pop("static_configs")
    assert ours == shipped, "deploy/docker/prometheus.yml differs in more than its target"
    source = load("deploy/docker/grafana-datasource.yml")["datasources"][0]
    assert source["url"] == "http://prometheus:9090", source
    folder = load("deploy/docker/grafana-dashboards.yml")["providers"][0]["options"]["path"]
    volumes = load("deploy/docker/compose.yml")["services"]["grafana"]["volumes"]
    assert any(volume.split(":")[1].startswith(folder) for volume in volumes), volumes


# --- systemd --------------------------------------------------------------------------------------


def unit():
    fields = {}
    for line in read("deploy/systemd/sockeye.service").splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            fields.setdefault(name, []).append(value)
    return fields


def unit_stops_later_than_the_drain():
    assert seconds(unit()["TimeoutStopSec"][0]) > drain_seconds()
    assert unit()["RestartPreventExitStatus"] == ["2"]


def unit_brings_secrets_to_a_user_that_owns_nothing():
    assert unit()["DynamicUser"] == ["yes"] and unit()["EnvironmentFile"] == ["-/etc/sockeye/environment"], unit()


def unit_starts_what_exists():
    for field in ("ExecStartPre", "ExecStart"):
        words = unit()[field][0].split()
        assert words[0] == "/usr/bin/sockeye", words
        if words[1] == "config":
            words = [SOCKEYE if word == words[0] else word for word in words]
            words[words.index("--config") + 1] = str(ROOT / "config/sockeye.toml")
            code, text = run(*words)
            assert code == 0, text
    assert "HUP" in unit()["ExecReload"][0]


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


# --- Kubernetes -----------------------------------------------------------------------------------


def chart_is_what_was_rendered():
    """Only where HELM names it; the other checks look at what was rendered."""
    helm = os.environ["HELM"]
    code, said = run(helm, "lint", "--strict", *VERSION, str(CHART))
    assert code == 0, said
    code, text = run(helm, "template", "sockeye", str(CHART), *VALUES)
    assert code == 0, text
    if "WRITE" in os.environ:
        RENDERED.write_text(text)
    assert text == RENDERED.read_text(), "render it again: WRITE=1 HELM=helm deploy/check/run.sh SOCKEYE"
    for off in ("podDisruptionBudget", *OPTIONAL):
        code, text = run(helm, "template", "sockeye", str(CHART), "--set", f"{off}.enabled=false", *VERSION)
        assert code == 0 and f"kind: {off[0].upper()}{off[1:]}\n" not in text, text


def chart_refuses_values_that_it_does_not_know():
    helm = os.environ["HELM"]
    for wrong in ("replica=3", "reload.seconds=0", "replicas=0", "service.type=Loadbalancer", "image.digest=latest", "config="):
        code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--set", wrong)
        assert code != 0 and "schema" in text, (wrong, text)
    digest = "sha256:" + "0" * 64
    code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--set", f"image.digest={digest}")
    assert code == 0 and f'image: "ghcr.io/sockeye/sockeye@{digest}"' in text, text


def chart_opens_what_is_asked_for():
    helm = os.environ["HELM"]
    values = {
        "workers": {"enabled": True},
        "tls": {"enabled": True, "port": 8443},
        "networkPolicy": {"enabled": True, "admin": {"from": []}},
        "volumes": [{"name": "tls", "secret": {"secretName": "certificates"}}],
        "volumeMounts": [{"name": "tls", "mountPath": "/etc/sockeye-tls"}],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--values", file.name)
    assert code == 0, text
    made = {f"{it['kind']}/{it['metadata']['name']}": it["spec"] for it in yaml.safe_load_all(text) if it and "spec" in it}
    pod = made["StatefulSet/sockeye"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["config", "tls"], pod["volumes"]
    assert pod["containers"][0]["volumeMounts"][-1]["mountPath"] == "/etc/sockeye-tls", pod
    inside = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert inside == {"public": 3000, "admin": 9090, "workers": 9091, "tls": 3443}, inside
    open_ports = [port["port"] for rule in made["NetworkPolicy/sockeye"]["ingress"] for port in rule["ports"]]
    assert open_ports == ["public", "tls", "workers", 9092], open_ports
    for service, wanted in (("sockeye", {"public": 80, "tls": 8443}), ("sockeye-nodes", {"admin": 9090, "workers": 9091})):
        ports = made[f"Service/{service}"]["ports"]
        assert {port["name"]: port["port"] for port in ports} == wanted, ports
        assert all(port["targetPort"] in inside for port in ports), ports


def chart_makes_a_cluster_with_workers():
    """The values that are shipped for it: all that they name is there, and the gateway takes the configuration with the secrets."""
    helm = os.environ["HELM"]
    code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--values", str(DEPLOY / "helm/cluster.yaml"))
    assert code == 0, text
    made = {f"{it['kind']}/{it['metadata']['name']}": it for it in yaml.safe_load_all(text) if it}
    nodes = made["StatefulSet/sockeye"]["spec"]
    container = nodes["template"]["spec"]["containers"][0]
    assert nodes["replicas"] == 3 and "ServiceMonitor/sockeye" in made, sorted(made)
    volumes = {volume["name"] for volume in nodes["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes, volumes
    secrets = {"cluster": "0" * 64, "operator": "operator:" + "0" * 64, "webhook": "0" * 64}
    env = {}
    for entry in container["env"]:
        if "value" in entry:
            env[entry["name"]] = entry["value"].replace("$(POD_IP)", env.get("POD_IP", ""))
        elif "secretKeyRef" in entry["valueFrom"]:
            env[entry["name"]] = secrets[entry["valueFrom"]["secretKeyRef"]["key"]]
        else:
            env[entry["name"]] = "10.0.0.7"
    env["SOCKEYE__SERVER__NODE"] = "0"
    config = made["ConfigMap/sockeye"]["data"]["sockeye.toml"]
    folder = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "workers")
    with tempfile.TemporaryDirectory() as place:
        key, cert = pathlib.Path(place, "tls.key"), pathlib.Path(place, "tls.crt")
        code, said = run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=sockeye",
                         "-days", "2", "-keyout", str(key), "-out", str(cert))
        assert code == 0, said
        shutil.copy(cert, pathlib.Path(place, "ca.crt"))
        file = pathlib.Path(place, "sockeye.toml")
        file.write_text(config.replace(folder, place))
        done = subprocess.run([SOCKEYE, "config", "check", "--config", str(file)], env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


def chart_changes_a_running_configuration():
    """The script of the second container beside a real gateway. Here `pkill` reaches this one alone."""
    helm = os.environ["HELM"]
    code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--set", "reload.enabled=true,reload.seconds=1")
    assert code == 0, text
    [pods] = [it["spec"]["template"] for it in yaml.safe_load_all(text) if it and it["kind"] == "StatefulSet"]
    assert pods["spec"]["shareProcessNamespace"] is True and not pods["metadata"]["annotations"], pods
    gateway, reload = pods["spec"]["containers"]
    assert reload["volumeMounts"] == gateway["volumeMounts"][:1] and reload["command"] == ["sh", "-c"], reload
    with tempfile.TemporaryDirectory() as place:
        config, log, tool = (pathlib.Path(place, name) for name in ("sockeye.toml", "log", "pkill"))
        config.write_text('profile = "public"\n')
        with log.open("w") as file:
            words = [SOCKEYE, "--config", str(config), "--listen", "127.0.0.1:0", "--admin", "off"]
            node = subprocess.Popen(words, stdout=file, stderr=file)
        tool.write_text(f'#!/bin/sh\n[ "$*" = "-HUP -x sockeye" ] && kill -HUP {node.pid}\n')
        tool.chmod(0o755)
        script = reload["args"][0].replace("/etc/sockeye/sockeye.toml", str(config))
        watcher = subprocess.Popen(["sh", "-c", script], env={**os.environ, "PATH": f"{place}:{os.environ['PATH']}"})
        try:
            for wanted, change in (("listening", None), ('"applied":"log.level"', '[log]\nlevel = "debug"\n'), ("cannot reload", "nonsense = 1\n")):
                if change:
                    config.write_text(f'profile = "public"\n{change}')
                deadline = time.monotonic() + 60
                while wanted not in log.read_text():
                    assert time.monotonic() < deadline and node.poll() is watcher.poll() is None, (wanted, log.read_text())
                    time.sleep(0.1)
            # What `pkill -x` compares.
            assert pathlib.Path(f"/proc/{node.pid}/comm").read_text() == "sockeye\n"
        finally:
            watcher.kill()
            node.kill()


def chart_has_the_version_of_the_gateway():
    chart = load("deploy/helm/sockeye/Chart.yaml")
    code, text = run(SOCKEYE, "--version")
    assert code == 0 and text.split()[1] == chart["appVersion"], (text, chart)


def chart_names_the_image_that_a_release_pushes():
    """Both kinds of machine push theirs under a digest, and the last job gives both one name. Its command runs here; docker's part writes down what it
    is asked for."""
    version, wanted = load("deploy/helm/sockeye/Chart.yaml")["appVersion"], pod()["containers"][0]["image"]
    _, naming = step("release", "image", "name")
    _, push = step("release", "image", "docker/build-push-action")
    assert push["with"]["outputs"].startswith("type=image,name=${{ steps.name.outputs.image }},push-by-digest=true"), push
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "docker").write_text('#!/bin/sh\necho "$@" >> asked\n')
        (place / "docker").chmod(0o755)
        (place / "digests").mkdir()
        for digest in ("aa", "bb"):
            (place / "digests" / digest).touch()
        output = place / "output"
        given = {"PATH": f"{folder}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "Sockeye/sockeye", "GITHUB_REF_NAME": f"v{version}", "GITHUB_OUTPUT": str(output)}
        for command in (naming, step("release", "images", "tag")[1]):
            subprocess.run(["bash", "-ec", command["run"]], cwd=folder, env=given, check=True)
        named, asked = output.read_text().strip(), (place / "asked").read_text().split()
    repository = named.removeprefix("image=")
    assert asked == ["buildx", "imagetools", "create", "--tag", wanted, f"{repository}@sha256:aa", f"{repository}@sha256:bb"], (asked, wanted)


def alerts_of_the_chart_are_those_that_are_shipped():
    shipped = load("deploy/prometheus/alerts.yml")
    assert load("deploy/helm/sockeye/alerts.yml") == shipped, "cp deploy/prometheus/alerts.yml deploy/helm/sockeye/"
    assert manifests()["PrometheusRule/sockeye"]["spec"] == shipped


def pods_go_apart_and_strangers_reach_the_public_port_only():
    over = [it["topologyKey"] for it in pod()["topologySpreadConstraints"]]
    assert over == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"], over
    policy = manifests()["NetworkPolicy/sockeye"]["spec"]
    everybody = [port["port"] for rule in policy["ingress"] if "from" not in rule for port in rule["ports"]]
    assert everybody == ["public"] and policy["policyTypes"] == ["Ingress"], policy


def pod():
    return manifests()["StatefulSet/sockeye"]["spec"]["template"]["spec"]


def pods_stop_later_than_the_drain():
    assert pod()["terminationGracePeriodSeconds"] > drain_seconds()


def pods_are_asked_the_right_questions():
    container = pod()["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"public": 3000, "admin": 9090}, ports
    assert default("listen").rstrip('"]').endswith("3000"), default("listen")
    for probe, path in (("livenessProbe", "/health"), ("readinessProbe", "/ready"), ("startupProbe", "/health")):
        assert container[probe]["httpGet"] == {"path": path, "port": "admin"}, container[probe]


def pods_may_do_little():
    assert pod()["securityContext"]["runAsNonRoot"] is True
    own = pod()["containers"][0]["securityContext"]
    assert own["readOnlyRootFilesystem"] and own["capabilities"] == {"drop": ["ALL"]}, own
    assert own["allowPrivilegeEscalation"] is False and pod()["automountServiceAccountToken"] is False


def services_and_budget_find_the_pods():
    everything = manifests()
    labels = everything["StatefulSet/sockeye"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        everything["Service/sockeye"]["spec"]["selector"],
        everything["Service/sockeye-nodes"]["spec"]["selector"],
        everything["PodDisruptionBudget/sockeye"]["spec"]["selector"]["matchLabels"],
        everything["StatefulSet/sockeye"]["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items(), (selector, labels)
    assert everything["StatefulSet/sockeye"]["spec"]["serviceName"] == "sockeye-nodes"
    monitor = everything["ServiceMonitor/sockeye"]["spec"]
    service = everything["Service/sockeye-nodes"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    # The one for clients must not be scraped as well, or every node counts twice.
    public = everything["Service/sockeye"]["metadata"]["labels"]
    assert not monitor["selector"]["matchLabels"].items() <= public.items(), public


def configuration_in_the_chart_is_accepted():
    accepted(manifests()["ConfigMap/sockeye"]["data"]["sockeye.toml"])
    names = {entry["name"]: entry["value"] for entry in pod()["containers"][0]["env"]}
    assert names == {"SOCKEYE__SERVER__ADMIN": "0.0.0.0:9090", "SOCKEYE__SERVER__NODE": "hostname"}, names
    # The name of a pod ends with its number; this machine's need not.
    assert manifests()["StatefulSet/sockeye"]["metadata"]["name"] == "sockeye"
    environment = {**os.environ, **names, "SOCKEYE__SERVER__NODE": "0"}
    done = subprocess.run([SOCKEYE, "config", "show"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "0.0.0.0:9090" in done.stdout, done


# --- packages and releases ------------------------------------------------------------------------


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


def workflows_run_what_exists():
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for job in load(path)["jobs"].values():
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), step
                uses = step.get("uses")
                assert uses is None or re.search(r"@[0-9a-f]{40}$", uses), f"{uses} is whatever its owner says today"
                for words in re.findall(r"cargo install [^&\n]*", step.get("run", "")):
                    assert "--locked" in words and re.search(r"@\d+\.\d+\.\d+", words), words
    assert "cargo xtask dist" in read(".github/workflows/release.yml")
    assert os.access(ROOT / ".ci/run", os.X_OK)


def step(workflow, job, wanted):
    """The one step of a job whose id is this, or whose action has this name, and its place."""
    steps = load(f".github/workflows/{workflow}.yml")["jobs"][job]["steps"]
    [found] = [(at, it) for at, it in enumerate(steps) if it.get("id") == wanted or it.get("uses", "").startswith(f"{wanted}@")]
    return found


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


def licences_are_told():
    notices = read("THIRD-PARTY-NOTICES.md")
    for crate in ("rustls", "tokio", "serde_json", "mimalloc"):
        assert re.search(rf"^\| {crate} \| ", notices, re.M), crate
    assert "MIT" in read("web/bundles/LICENSE-socket.io-client")


CHECKS = [value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == "__main__"]
NEED_HELM = {chart_is_what_was_rendered, chart_refuses_values_that_it_does_not_know, chart_opens_what_is_asked_for, chart_makes_a_cluster_with_workers, chart_changes_a_running_configuration}
NEED_DEB = {package_in_a_debian_that_has_nothing_else}
HELPERS = {NotRun, read, load, run, seconds, default, drain_seconds, accepted, manifests, instructions, is_ignored, runs_until_it_is_told_to_stop, step, unit, pod}


def main():
    passed = failed = skipped = 0
    for check in CHECKS:
        if check in HELPERS or (check in NEED_HELM and "HELM" not in os.environ) or (check in NEED_DEB and "DEB" not in os.environ):
            continue
        name = check.__name__.replace("_", " ")
        try:
            check()
        except NotRun as why:
            skipped += 1
            print(f"NOT RUN: {name}: {why}")
        except Exception as error:
            failed += 1
            print(f"FAILED: {name}: {error!r}")
        else:
            passed += 1
            print(f"ok: {name}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
