"""Hardware-aware simulation of GPU memory accesses, cross-checked on real GPUs."""
