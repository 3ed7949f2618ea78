"""The one program of ours that runs on hosts: nvidia-cdi-hook, static C, needs nothing there."""
