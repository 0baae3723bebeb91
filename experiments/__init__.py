"""Ready studies, workloads and benchmarks; not installed with the package."""
