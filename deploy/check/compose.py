"""Compose files: all that they name is there, and only clients may reach a port from outside."""

import os
import re
import shutil
import subprocess

from ground import DEPLOY, NotRun, ROOT, SOCKEYE, check, drain_seconds, load, read, run, seconds


@check
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


@check
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


@check
def balancer_of_the_cluster_is_sound_to_haproxy():
    if not shutil.which("haproxy"):
        raise NotRun("no haproxy")
    code, said = run("haproxy", "-c", "-f", str(DEPLOY / "docker/haproxy.cfg"))
    assert code == 0, said


@check
def compose_ports_are_apart_and_private():
    taken = set()
    for name, service in load("deploy/docker/compose.yml")["services"].items():
        for port in service["ports"]:
            *host, outside, _ = port.split(":")
            assert outside not in taken, f"{outside} twice"
            taken.add(outside)
            assert (name, outside) == ("sockeye", "3000") or host == ["127.0.0.1"], f"{name}: {port} is open to everybody"


@check
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
