"""Coverage-guided fuzzing of the compiled kernels. See README.md; not installed."""
