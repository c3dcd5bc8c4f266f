// Reads with a chosen number of independent loads in flight a warp (Little's law).
// Each thread reads rounds * LOADS elements, a grid's width apart, LOADS of them before the first use,
// and stores their sum. Eight float4 loads need more registers than 64 warps an SM can have: that kernel is
// compiled for one CTA of 32 warps an SM, or the compiler would wait for four loads before it issues the others.

__device__ float total(float v) { return v; }
__device__ float total(float4 v) { return (v.x + v.y) + (v.z + v.w); }

template <typename T, int LOADS>
__device__ void read_ahead(const T* __restrict__ in, float* __restrict__ out, int rounds) {
  int threads = gridDim.x * blockDim.x;
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const T* first = in + (long long)round * LOADS * threads + thread;
    T value[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; ++k) value[k] = first[(long long)k * threads];
#pragma unroll
    for (int k = 0; k < LOADS; ++k) sum += total(value[k]);
  }
  out[thread] = sum;
}

template <int LOADS>
__global__ void read_float(const float* __restrict__ in, float* __restrict__ out, int rounds) {
  read_ahead<float, LOADS>(in, out, rounds);
}

template <int LOADS>
__global__ void __launch_bounds__(1024, LOADS > 4 ? 1 : 2) read_float4(const float4* __restrict__ in, float* __restrict__ out, int rounds) {
  read_ahead<float4, LOADS>(in, out, rounds);
}
