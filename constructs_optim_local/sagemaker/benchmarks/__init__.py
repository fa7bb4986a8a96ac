"""Benchmark and recommendation jobs: workloads, synthetic measurements and the files of AIPerf."""
