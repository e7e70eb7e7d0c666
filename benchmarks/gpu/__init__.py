"""The steps of `benchmarks/gpu_first_half_hour.py`."""
