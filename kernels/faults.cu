// Kernels with one fault each.
// scenarios/faults/ launches them, and a run must stop at the fault.

extern "C" {

// No __syncthreads() between the tile's writers and its readers.
__global__ void missing_sync(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[255 - threadIdx.x];
}

// The barrier before the tile is written again is missing: a fast warp overwrites what a slow one reads.
__global__ void missing_second_sync(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float tile[256];
  for (int step = 0; step < 2; ++step) {
    tile[threadIdx.x] = in[256 * step + threadIdx.x];
    __syncthreads();
    out[256 * step + threadIdx.x] = tile[255 - threadIdx.x];
  }
}

// Only the first half of the tile is ever written.
__global__ void shared_unwritten(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float tile[256];
  if (threadIdx.x < 128) tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

// The last CTA runs past the buffers: the guard is missing.
__global__ void out_of_bounds(const float* __restrict__ in, float* __restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}

// A float4 read from an address that is not a multiple of 16.
__global__ void misaligned_float4(const float* __restrict__ in, float4* __restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = *reinterpret_cast<const float4*>(in + 1 + 4 * i);
}

// Correct by itself; launched with 60 KB of dynamic shared memory and no opt-in.
__global__ void dynamic_shared(const float* __restrict__ in, float* __restrict__ out) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}

// The address depends on what `where` holds.
__global__ void opaque_address(const float* __restrict__ in, const int* __restrict__ where, float* __restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int place = where[i];
  out[i] = in[place];
}

// Half of each warp waits at one barrier, half at another.
__global__ void divergent_barrier(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 100) {
    __syncthreads();
    out[threadIdx.x] = tile[255 - threadIdx.x];
  } else {
    out[threadIdx.x] = 0.0f;
    __syncthreads();
  }
}

// Never ends.
__global__ void endless(float* __restrict__ out, int step) {
  int i = threadIdx.x;
  while (i >= 0) i = (i + step) & 1023;
  out[threadIdx.x] = i;
}

}  // extern "C"
