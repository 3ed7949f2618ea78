"""The benchmarks in the order in which they run."""

from __future__ import annotations

from benchmarks import cdi, churn, cuda, device_plugin, exporter, ready, rest, scale, transaction
from benchmarks.harness import Benchmark

BENCHMARKS = (
    Benchmark("ready", "policy applied until every node is ready, demo cluster", ready.measure),
    Benchmark("device-plugin", "registration, Allocate, health: one plugin, 8 GPUs", device_plugin.measure),
    Benchmark("cdi", "CDI specs of 8 GPUs: fresh process, daemon, hook", cdi.measure),
    Benchmark("cuda", "a program on each of 8 GPUs, and the waiting it adds", cuda.measure),
    Benchmark("transaction", "the toolkit changes a real containerd, and undoes it", transaction.measure),
    Benchmark("exporter", "scrapes, memory and CPU: 8 GPUs, 64 pods; 8 x 7 MIG", exporter.measure),
    Benchmark("churn", "the exporter's memory and series while pods are replaced", churn.measure),
    Benchmark("rest", "memory, idle CPU and writes of a converged demo cluster", rest.measure),
    Benchmark("scale", "the operator with 100 and 1,000 nodes (5,000 with --full)", scale.measure),
)
