"""Benchmark and recommendation jobs: workloads, made-up measurements and the files of AIPerf."""
