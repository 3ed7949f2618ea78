"""What DESIGN §10 promises, measured: `python -m benchmarks [NAME ...]`, or `make bench`.

`registry.py` lists the benchmarks; each returns figures, `figures.py` judges them against what is owed.
Everything runs on the simulator: HTTP, sockets, processes and the NVML ABI are real, the cluster is not.
"""
