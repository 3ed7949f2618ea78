"""Scripted stories on a simulated cluster; the demo is one."""
