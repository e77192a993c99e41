"""The chart as Helm renders it, its version and its image. Checks that call Helm run only where HELM names it."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import yaml

from ground import DEPLOY, SOCKEYE, check, load, run, step
from kubernetes import RENDERED, pod

CHART = DEPLOY / "helm/sockeye"
# Helm made by `go install` knows no version of Kubernetes.
VERSION = ["--kube-version", "1.31.0"]
# Values with which the chart is rendered into RENDERED; everything optional is on.
OPTIONAL = ("serviceMonitor", "prometheusRule", "networkPolicy")
VALUES = [word for name in OPTIONAL for word in ("--set", f"{name}.enabled=true")] + ["--namespace", "sockeye", *VERSION]


@check(needs="HELM")
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


@check(needs="HELM")
def chart_refuses_values_that_it_does_not_know():
    helm = os.environ["HELM"]
    for wrong in ("replica=3", "reload.seconds=0", "replicas=0", "service.type=Loadbalancer", "image.digest=latest", "config="):
        code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--set", wrong)
        assert code != 0 and "schema" in text, (wrong, text)
    digest = "sha256:" + "0" * 64
    code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--set", f"image.digest={digest}")
    assert code == 0 and f'image: "ghcr.io/sockeye/sockeye@{digest}"' in text, text


@check(needs="HELM")
def chart_waits_before_the_drain_where_kubernetes_can():
    helm = os.environ["HELM"]
    for version, values, waits in (("1.31.0", "preStopSeconds=7", True), ("1.29.5", "preStopSeconds=7", False), ("1.31.0", "preStopSeconds=0", False)):
        code, text = run(helm, "template", "sockeye", str(CHART), "--kube-version", version, "--set", values)
        assert code == 0 and ("sleep: { seconds: 7 }" in text) == waits, (version, values, text)


@check(needs="HELM")
def chart_opens_what_is_asked_for():
    helm = os.environ["HELM"]
    values = {
        "workers": {"enabled": True},
        "tls": {"enabled": True, "port": 8443, "webtransport": True},
        "networkPolicy": {"enabled": True, "admin": {"from": []}},
        "volumes": [{"name": "tls", "secret": {"secretName": "certificates"}}],
        "volumeMounts": [{"name": "tls", "mountPath": "/etc/sockeye-tls"}],
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        code, text = run(helm, "template", "sockeye", str(CHART), *VERSION, "--values", file.name)
    assert code == 0, text
    made = {f"{it['kind']}/{it['metadata']['name']}": it["spec"] for it in yaml.safe_load_all(text) if it and "spec" in it}
    assert made["StatefulSet/sockeye"]["volumeClaimTemplates"] == values["volumeClaimTemplates"], made
    pod = made["StatefulSet/sockeye"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["config", "tls"], pod["volumes"]
    assert pod["containers"][0]["volumeMounts"][-1]["mountPath"] == "/etc/sockeye-tls", pod
    inside = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert inside == {"public": 3000, "admin": 9090, "workers": 9091, "tls": 3443}, inside
    open_ports = [port["port"] for rule in made["NetworkPolicy/sockeye"]["ingress"] for port in rule["ports"]]
    assert open_ports == ["public", "tls", 3443, "workers", 9092], open_ports
    [by_udp] = made["Service/sockeye-webtransport"]["ports"]
    assert by_udp == {"name": "webtransport", "port": 8443, "protocol": "UDP", "targetPort": inside["tls"]}, by_udp
    for service, wanted in (("sockeye", {"public": 80, "tls": 8443}), ("sockeye-nodes", {"admin": 9090, "workers": 9091})):
        ports = made[f"Service/{service}"]["ports"]
        assert {port["name"]: port["port"] for port in ports} == wanted, ports
        assert all(port["targetPort"] in inside for port in ports), ports


@check(needs="HELM")
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


@check(needs="HELM")
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


@check
def chart_has_the_version_of_the_gateway():
    chart = load("deploy/helm/sockeye/Chart.yaml")
    code, text = run(SOCKEYE, "--version")
    assert code == 0 and text.split()[1] == chart["appVersion"], (text, chart)


@check
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
