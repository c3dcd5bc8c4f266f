// Shared memory: bank conflicts, a tile against L1, shared atomics.
// There are 32 banks of 4 bytes; a warp's request takes as many wavefronts as the busiest bank has different words.
// Each bank kernel fills a 32-row tile and then reads it `rounds` times in its own pattern, so the reads
// outweigh the fill. Blocks are 32 x 8 threads; `warp` is threadIdx.y and picks where a warp starts.

// A column of float[32][COLUMNS]: 32-way conflicts with 32 columns, none with 33.
template <int COLUMNS>
__global__ void bank_column(const float* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float tile[32][COLUMNS];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (unsigned row = warp; row < 32; row += blockDim.y) tile[row][lane] = in[row * 32 + lane];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    sum += tile[lane][(warp + round) % 32];
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// The diagonal s[i][i] and its parallels: every lane in a bank of its own, until a 33rd column moves
// row i by i banks and puts lanes i and i + 16 into one.
template <int COLUMNS>
__global__ void bank_diagonal(const float* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float tile[32][COLUMNS];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (unsigned row = warp; row < 32; row += blockDim.y) tile[row][lane] = in[row * 32 + lane];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    sum += tile[lane][(lane + warp + round) % 32];
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

extern "C" {

// All lanes read one word: one wavefront.
__global__ void bank_broadcast(const float* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float tile[32][32];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (unsigned row = warp; row < 32; row += blockDim.y) tile[row][lane] = in[row * 32 + lane];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    sum += tile[(warp + round) % 32][warp];
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// The column walk again, without padding: column c of row r is kept at c ^ r.
__global__ void bank_swizzle(const float* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float tile[32][32];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (unsigned row = warp; row < 32; row += blockDim.y) tile[row][lane ^ row] = in[row * 32 + lane];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    sum += tile[lane][((warp + round) % 32) ^ lane];
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// Linear 8-byte reads: two wavefronts, as 256 bytes need, and no conflict.
__global__ void bank_float2(const float2* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float2 tile[1024];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (unsigned i = warp * 32 + lane; i < 1024; i += 32 * blockDim.y) tile[i] = in[i];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    float2 value = tile[(warp + round) % 32 * 32 + lane];
    sum += value.x + value.y;
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// Linear 16-byte reads: four wavefronts, no conflict.
__global__ void bank_float4(const float4* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float4 tile[1024];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  for (unsigned i = warp * 32 + lane; i < 1024; i += 32 * blockDim.y) tile[i] = in[i];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    float4 value = tile[(warp + round) % 32 * 32 + lane];
    sum += (value.x + value.y) + (value.z + value.w);
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// Column sums of a 32 x 32 tile, read `rounds` times. The tile is kept transposed in shared memory, so
// both its fill and its reads conflict 32-way ...
__global__ void tile_through_shared(const float* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  __shared__ float tile[32][32];
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  const float* mine = in + blockIdx.x * 1024;
  for (unsigned row = warp; row < 32; row += blockDim.y) tile[lane][row] = mine[row * 32 + lane];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    sum += tile[lane][(warp + round) % 32];
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// ... and the same sums straight from global memory: coalesced, and hits in L1 after the first touch.
__global__ void tile_through_l1(const float* __restrict__ in, float* __restrict__ out, unsigned rounds) {
  unsigned lane = threadIdx.x, warp = threadIdx.y;
  const float* mine = in + blockIdx.x * 1024;
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned round = 0; round < rounds; ++round) {
    sum += mine[(warp + round) % 32 * 32 + lane];
  }
  out[(blockIdx.x * blockDim.y + warp) * 32 + lane] = sum;
}

// A histogram of 256 bins with shared atomics, merged into global memory at the end. Lanes that hit two bins
// of one bank wait for each other. Counting by one compiles to ATOMS.POPC.INC, which takes all lanes on one bin
// at once.
__global__ void histogram(const int* __restrict__ values, unsigned* __restrict__ bins, int n) {
  __shared__ unsigned local_bins[256];
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) local_bins[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int value = values[i];
    atomicAdd(&local_bins[value], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) atomicAdd(&bins[bin], local_bins[bin]);
}

// The same with a weight to add: ATOMS.ADD, and lanes on one bin wait for each other too.
__global__ void histogram_weighted(const int* __restrict__ values, unsigned* __restrict__ bins, unsigned weight, int n) {
  __shared__ unsigned local_bins[256];
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) local_bins[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int value = values[i];
    atomicAdd(&local_bins[value], weight);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) atomicAdd(&bins[bin], local_bins[bin]);
}

}  // extern "C"
