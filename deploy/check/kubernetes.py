"""The rendered chart, which is what most people install: pods, services, alerts, configuration."""

import os
import pathlib
import subprocess
import tempfile

import yaml

from ground import DEPLOY, SOCKEYE, check, default, drain_seconds, load, run

RENDERED = DEPLOY / "kubernetes/sockeye.yaml"


def manifests():
    documents = [document for document in yaml.safe_load_all(RENDERED.read_text()) if document]
    return {f"{document['kind']}/{document['metadata']['name']}": document for document in documents}


def pod():
    return manifests()["StatefulSet/sockeye"]["spec"]["template"]["spec"]


def accepted(config):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sockeye.toml"
        path.write_text(config)
        code, text = run(SOCKEYE, "config", "check", "--config", str(path))
        assert code == 0, f"sockeye config check: {text}"


@check
def alerts_of_the_chart_are_those_that_are_shipped():
    shipped = load("deploy/prometheus/alerts.yml")
    assert load("deploy/helm/sockeye/alerts.yml") == shipped, "cp deploy/prometheus/alerts.yml deploy/helm/sockeye/"
    assert manifests()["PrometheusRule/sockeye"]["spec"] == shipped


@check
def pods_go_apart_and_strangers_reach_the_public_port_only():
    over = [it["topologyKey"] for it in pod()["topologySpreadConstraints"]]
    assert over == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"], over
    policy = manifests()["NetworkPolicy/sockeye"]["spec"]
    everybody = [port["port"] for rule in policy["ingress"] if "from" not in rule for port in rule["ports"]]
    assert everybody == ["public"] and policy["policyTypes"] == ["Ingress"], policy


@check
def pods_stop_later_than_the_drain():
    before = pod()["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert before > 0, "newcomers are refused until proxies have heard that the pod stops"
    # The last news: of backends, history and Kafka (crates/gateway/src/serve.rs).
    assert pod()["terminationGracePeriodSeconds"] >= before + drain_seconds() + 10


@check
def pods_are_asked_the_right_questions():
    container = pod()["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"public": 3000, "admin": 9090}, ports
    assert default("listen").rstrip('"]').endswith("3000"), default("listen")
    for probe, path in (("livenessProbe", "/health"), ("readinessProbe", "/ready"), ("startupProbe", "/health")):
        assert container[probe]["httpGet"] == {"path": path, "port": "admin"}, container[probe]


@check
def pods_may_do_little():
    assert pod()["securityContext"]["runAsNonRoot"] is True
    own = pod()["containers"][0]["securityContext"]
    assert own["readOnlyRootFilesystem"] and own["capabilities"] == {"drop": ["ALL"]}, own
    assert own["allowPrivilegeEscalation"] is False and pod()["automountServiceAccountToken"] is False


@check
def pods_could_not_write_to_a_disk_of_their_own():
    """A new volume is root's."""
    own = pod()["securityContext"]
    assert own["fsGroup"] == own["runAsGroup"], own


@check
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


@check
def configuration_in_the_chart_is_accepted():
    accepted(manifests()["ConfigMap/sockeye"]["data"]["sockeye.toml"])
    names = {entry["name"]: entry["value"] for entry in pod()["containers"][0]["env"]}
    assert names == {"SOCKEYE__SERVER__ADMIN": "0.0.0.0:9090", "SOCKEYE__SERVER__NODE": "hostname"}, names
    # The name of a pod ends with its number; this machine's need not.
    assert manifests()["StatefulSet/sockeye"]["metadata"]["name"] == "sockeye"
    environment = {**os.environ, **names, "SOCKEYE__SERVER__NODE": "0"}
    done = subprocess.run([SOCKEYE, "config", "show"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "0.0.0.0:9090" in done.stdout, done
