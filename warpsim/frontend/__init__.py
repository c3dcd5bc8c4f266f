"""CUDA source to warp instructions: NVRTC, nvdisasm, SIMT execution."""
