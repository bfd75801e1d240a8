"""Benchmarks: functions named `bench_…` in the modules of this folder. `make bench` runs them all."""
