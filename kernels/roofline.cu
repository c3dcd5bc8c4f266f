// Kernels with a known arithmetic intensity (FLOP a useful byte). The n x n product is in reuse.cu.

extern "C" {

// 1 FLOP, 12 bytes an element.
__global__ void add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

// 1 FLOP, 8 bytes.
__global__ void scale(const float* __restrict__ in, float* __restrict__ out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * in[i];
}

// 2 FLOP, 8 bytes; the sums over lanes, warps and CTAs add less than one in a hundred when a thread takes
// many elements.
__global__ void dot(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  float sum = 0.0f;
#pragma unroll 4
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += a[i] * b[i];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

// max(x, 0): no FLOP as Nsight Compute counts, one other floating-point instruction.
__global__ void relu(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fmaxf(in[i], 0.0f);
}

}  // extern "C"
