"""Services and ServiceMonitors by which Prometheus finds metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpuready.api.blocks import ServiceMonitor
from gpuready.operands.contract import ClusterView, KubeObject

SCRAPED = {"prometheus.io/scrape": "true"}


def service(
    name: str,
    port_name: str,
    port: int,
    view: ClusterView,
    *,
    scraped: bool = True,
    spec: Mapping[str, str] | None = None,
) -> KubeObject:
    """A Service of the pods with `app: name`. spec: further fields under their API names, empty ones not."""
    metadata: KubeObject = {"name": name, "namespace": view.namespace, "labels": {"app": name}}
    if scraped:
        metadata["annotations"] = SCRAPED
    given = {key: value for key, value in (spec or {}).items() if value}
    ports = [{"name": port_name, "port": port, "targetPort": port}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": {"app": name}, "ports": ports, **given},
    }


def service_monitor(
    name: str, port_name: str, view: ClusterView, *, job_label: str, asked: ServiceMonitor | None = None
) -> list[KubeObject]:
    """Empty where the API server knows no ServiceMonitors."""
    if not view.service_monitors:
        return []
    asked = asked or ServiceMonitor()
    labels = {"app": name, **asked.additional_labels}
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": {"name": name, "namespace": view.namespace, "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "namespaceSelector": {"matchNames": [view.namespace]},
                "jobLabel": job_label,
                "endpoints": [{"port": port_name, "path": "/metrics", **_endpoint(asked)}],
            },
        }
    ]


def _endpoint(asked: ServiceMonitor) -> dict[str, Any]:
    given = {
        "interval": asked.interval,
        "scrapeTimeout": asked.scrape_timeout,
        "honorLabels": asked.honor_labels,
        "relabelings": msgspec.to_builtins(asked.relabelings),
    }
    return {name: value for name, value in given.items() if value}
